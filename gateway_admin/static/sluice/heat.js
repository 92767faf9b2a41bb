// Fills the page "Heat map" from its JSON: one row a tenant, one column a bucket, each cell a link to its requests.
import { numbers, say, time, words } from "./live.js";
import { choices, hide, list, share, watch, write } from "./watch.js";

const live = document.getElementById("live");
const form = document.getElementById("choices");
const STEPS = [0, 0.01, 0.05, 0.2];

// 0 for no errors, then one more for each bound that the rate reaches.
const step = (requests, errors) => (errors ? STEPS.filter((bound) => errors / requests >= bound).length : 0);

const merge = (cells) => (columns) =>
  columns.map(({ buckets: [first, end] }) =>
    cells.slice(first, end + 1).reduce(([requests, errors], [more, failed]) => [requests + more, errors + failed], [0, 0]),
  );

const make = (name, fields = {}) => Object.assign(document.createElement(name), fields);

const heading = (text, scope, className = "") => make("th", { textContent: text, scope, className });

// A cell names the moment that was shown: who opens its address later sees the same requests.
const address = (at, more) => {
  const asked = chosen();
  asked.set("at", String(Math.floor(at)));
  for (const [name, value] of more) asked.set(name, value);
  return `${live.dataset.cellUrl}?${asked}`;
};

const cell = (place) => {
  const made = make("td");
  made.dataset.place = place;
  made.append(make("a"), make("span", { textContent: "–", className: "sluice-quiet" }));
  made.firstChild.append(make("strong"), make("span"));
  return made;
};

const fillCell = (found, [requests, errors], url) => {
  const [link, none] = found.children;
  link.hidden = !requests;
  none.hidden = Boolean(requests);
  found.dataset.heat = requests ? step(requests, errors) : "";
  link.href = url;
  const rate = say(words.failed, { share: share(errors, requests) });
  const texts = [numbers.format(requests), rate];
  [...link.children].forEach((part, place) => {
    if (part.textContent !== texts[place]) part.textContent = texts[place];
  });
};

const fillRow = (row, { name, cells, who }, columns, at) => {
  if (row.children.length !== columns.length + 2) {
    row.replaceChildren(heading("", "row"), ...columns.map((_column, place) => cell(place)), cell("total"));
  }
  if (row.firstChild.textContent !== name) row.firstChild.textContent = name;
  const ends = columns.map(({ buckets }) => ["buckets", buckets.join("-")]);
  merge(cells)(columns).forEach((sums, place) => fillCell(row.children[place + 1], sums, address(at, [...who, ends[place]])));
  const [total] = merge(cells)([{ buckets: [0, cells.length - 1] }]);
  fillCell(row.lastChild, total, address(at, who));
};

const totalOf = (rows) =>
  rows.reduce((total, { cells }) => total.map(([requests, errors], place) => [requests + cells[place][0], errors + cells[place][1]]), rows[0].cells.map(() => [0, 0]));

const rowsOf = ({ rows, others }) => {
  const named = rows.map(({ tenant, cells }) => ({ key: `t:${tenant}`, name: tenant || words.nobody, cells, who: [["tenant", tenant]] }));
  const gathered = { key: "others", name: say(words.others, { count: numbers.format(others.tenants) }), cells: others.cells, who: [["others", "on"]] };
  return others.tenants ? [...named, gathered] : named;
};

const fillModels = (models) => {
  const select = document.getElementById("model");
  const names = [...new Set([...models, select.value])].filter(Boolean).sort();
  const shown = [...select.options].slice(1).map(({ value }) => value);
  if (names.join("\n") === shown.join("\n")) return;
  const before = select.value;
  select.replaceChildren(select.options[0], ...names.map((name) => make("option", { value: name, textContent: name })));
  select.value = before;
};

const show = (state) => {
  const columns = words.columns[form.elements.split.checked ? "fine" : "coarse"];
  const rows = rowsOf(state);
  hide("map-panel", rows.length === 0);
  hide("map-empty", rows.length > 0 || !state.used_before);
  hide("never-used", state.used_before);
  hide("streams-only", form.elements.measure.value !== "ttft");
  fillModels(state.models);
  write(live, { between: say(words.between, { since: time(state.since), until: time(state.until) }) });
  if (form.elements.at) {
    write(live, { stands: say(words.stands, { until: time(state.until) }) });
    const moving = chosen();
    moving.delete("at");
    document.getElementById("go-on").href = `?${moving}`;
  }
  const names = [...columns.map(({ name }) => heading(name, "col")), heading(words.total, "col")];
  document.getElementById("columns").replaceChildren(make("td"), ...names);
  const fill = (row, item) => fillRow(row, item, columns, state.at);
  list(document.getElementById("tenants"), "heat-row", rows, ({ key }) => key, fill);
  const total = rows.length ? [{ key: "all", name: words.all, cells: totalOf(rows), who: [] }] : [];
  list(document.getElementById("totals"), "heat-row", total, ({ key }) => key, fill);
  return state.refresh_ms;
};

const chosen = choices(form, () => again());
const again = watch(() => `${live.dataset.url}?${chosen()}`, show);
