// Usage: the question to ask, the chart, the table, and the file.
import { chart } from "./account_chart.js";
import { brief, count, day, decimalOf, money, nanoOf, say, time, words } from "./account_numbers.js";

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
const COLOURS = 6;
const SUMMED = ["requests", "completed", "failed", "prompt_tokens", "cached_tokens", "completion_tokens"];
const byId = (id) => document.getElementById(id);
const chosen = (id) => byId(id).value;

const monthStart = (seconds, back = 0) => {
  const date = new Date(seconds * 1000);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - back, 1) / 1000;
};

export const question = () => {
  const now = Math.floor(Date.now() / 1000);
  const [bucket, start] = {
    day: ["hour", now - 23 * HOUR_S],
    month: ["day", monthStart(now)],
    days: ["day", now - 89 * DAY_S],
    year: ["month", monthStart(now, 11)],
  }[chosen("range")];
  return `/v1/usage?${new URLSearchParams({ bucket, start, group_by: chosen("group") })}`;
};

const nameOf = (row, group) => {
  if (group === "key") return row.key.name ? `${row.key.name} (sk-sluice-${row.key.prefix}…)` : `${words.deleted} ${row.key.id}`;
  if (group === "class") return words.classes[row.class] || row.class;
  return group === "model" ? row.model : words.all;
};

const keyOf = (row, group) => (group === "key" ? row.key.id : row[group] || "");

// One sum for each group, the largest first.
const sumUp = (report, group) => {
  const sums = new Map();
  for (const row of report.data) {
    const key = keyOf(row, group);
    const sum = sums.get(key) || { key, name: nameOf(row, group), nano: 0n, ...Object.fromEntries(SUMMED.map((name) => [name, 0])) };
    for (const name of SUMMED) sum[name] += row[name];
    sum.nano += nanoOf(row.cost);
    sums.set(key, sum);
  }
  return [...sums.values()].sort((a, b) => (b.nano === a.nano ? b.requests - a.requests : b.nano > a.nano ? 1 : -1));
};

const valueOf = (row, measure) => {
  if (measure === "cost") return Number(row.cost);
  return measure === "tokens" ? row.prompt_tokens + row.completion_tokens : row.requests;
};

const written = (measure, value, currency) => (measure === "cost" ? `${brief(measure, value)} ${currency}` : count(value));

const startsOf = ({ start, end, bucket }) => {
  const starts = [];
  const next = { hour: (at) => at + HOUR_S, day: (at) => at + DAY_S, month: (at) => monthStart(at, -1) }[bucket];
  for (let at = start; at < end; at = next(at)) starts.push(at);
  return starts;
};

const labelOf = (start, bucket) => ({ hour: time(start).slice(11, 16), day: day(start).slice(5), month: day(start).slice(0, 7) })[bucket];

const barsOf = (report, sums, group, measure) => {
  const colours = new Map(sums.map(({ key }, place) => [key, `s${Math.min(place, COLOURS)}`]));
  const rows = Map.groupBy ? Map.groupBy(report.data, (row) => row.starts_at) : grouped(report.data);
  return startsOf(report).map((start) => ({
    label: labelOf(start, report.bucket),
    parts: (rows.get(start) || [])
      .map((row) => ({ colour: colours.get(keyOf(row, group)), value: valueOf(row, measure), name: nameOf(row, group) }))
      .sort((a, b) => (a.colour < b.colour ? -1 : 1))
      .map((part) => ({ ...part, title: `${part.name}, ${report.bucket === "hour" ? time(start) : day(start)}: ${written(measure, part.value, report.currency)}` })),
  }));
};

const grouped = (rows) => {
  const found = new Map();
  for (const row of rows) found.set(row.starts_at, [...(found.get(row.starts_at) || []), row]);
  return found;
};

const legend = (sums) => {
  const items = sums.slice(0, COLOURS).map(({ name }, place) => ({ name, colour: `s${place}` }));
  if (sums.length > COLOURS) items.push({ name: words.others, colour: `s${COLOURS}` });
  return items.map(({ name, colour }) => {
    const item = document.createElement("li");
    item.className = colour;
    item.textContent = name;
    return item;
  });
};

const tableRow = (name, sum) => {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = name;
  const texts = [sum.requests, sum.failed, sum.prompt_tokens, sum.cached_tokens, sum.completion_tokens].map(count);
  const cells = [...texts, money(sum.cost)].map((text) => {
    const cell = document.createElement("td");
    cell.textContent = text;
    return cell;
  });
  row.append(head, ...cells);
  return row;
};

export const showUsage = (report) => {
  const [group, measure] = [report.group_by[0] || "", chosen("measure")];
  const sums = sumUp(report, group);
  byId("usage").hidden = byId("download").disabled = report.data.length === 0;
  byId("no-usage").hidden = report.data.length > 0;
  byId("no-usage").textContent = words.nothing;
  if (report.data.length === 0) return;
  const total = valueOf(report.totals, measure);
  const span = { start: day(report.start), end: day(report.end - 1), measure: words.measures[measure] };
  const label = say(words.chart, { ...span, total: written(measure, total, report.currency) });
  byId("chart").replaceChildren(chart(barsOf(report, sums, group, measure), measure, label, Math.max(320, byId("chart").clientWidth)));
  byId("legend").replaceChildren(...(group ? legend(sums) : []));
  byId("group-name").textContent = group ? byId("group").selectedOptions[0].textContent : "";
  byId("currency").textContent = `(${report.currency})`;
  byId("sums").replaceChildren(...sums.map((sum) => tableRow(sum.name, { ...sum, cost: decimalOf(sum.nano) })));
  byId("total").replaceChildren(tableRow(words.all, report.totals));
};

// A spreadsheet would run a text that begins like a formula.
const cell = (value) => {
  const text = String(value ?? "");
  const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

export const csv = (report) => {
  const groups = report.group_by.flatMap((group) => (group === "key" ? ["key_id", "key_name", "key_prefix"] : [group]));
  const columns = ["starts_at", ...groups, ...SUMMED, "cost", "currency"];
  const lines = report.data.map((row) => {
    const { key = {} } = row;
    const flat = { ...row, starts_at: new Date(row.starts_at * 1000).toISOString(), currency: report.currency };
    return { ...flat, key_id: key.id, key_name: key.name, key_prefix: key.prefix };
  });
  // The mark tells Excel that this is UTF-8.
  return `\ufeff${[columns, ...lines.map((line) => columns.map((name) => line[name]))].map((line) => line.map(cell).join(",")).join("\r\n")}\r\n`;
};

export const download = (report, tenant) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv(report)], { type: "text/csv;charset=utf-8" }));
  link.download = `sluice-usage-${tenant}-${day(report.start)}-${day(report.end - 1)}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
};
