// Fills the page "Cache" from its JSON every two seconds.
import { lines } from "./lines.js";
import { meter, numbers, percent, poll, say, time, words } from "./live.js";

const MIB = 2 ** 20;
const live = document.getElementById("live");
const shares = { hit_rate: "sluice-line-hit", ceiling: "sluice-line-ceiling", watermark: "sluice-line-watermark" };

const known = (value, show) => (value === null || value === undefined ? "–" : show(value));
const name = (choice) => words.choices[choice] || choice;
const mib = (bytes) => numbers.format(Math.ceil((bytes / MIB) * 10) / 10);
const room = (used, most) => say(words.of, { used: mib(used), most: `${mib(most)} MiB` });
const sum = (rows, read) => rows.reduce((total, row) => total + (read(row) || 0), 0);
const mean = (rows, read) => {
  const found = rows.map(read).filter((value) => value !== null && value !== undefined);
  return found.length ? found.reduce((total, value) => total + value, 0) / found.length : null;
};

const write = (root, fields) => {
  for (const [field, value] of Object.entries(fields)) {
    const element = root.querySelector(`[data-field="${field}"]`);
    if (element.textContent !== value) element.textContent = value;
  }
};

const rows = (id, template, items, fill) => {
  const made = items.map((item) => {
    const row = document.getElementById(template).content.firstElementChild.cloneNode(true);
    fill(row, item);
    return row;
  });
  document.getElementById(id).replaceChildren(...made);
  const hint = live.querySelector(`[data-empty="${id}"]`);
  if (hint) hint.hidden = made.length > 0;
};

const hide = (id, hidden) => {
  document.getElementById(id).hidden = hidden;
};

const fillGateway = (row, gateway) => {
  write(row, {
    id: gateway.id,
    policy: name(gateway.policy),
    mode: say(gateway.fixed ? words.decides_fixed : words.decides_setting, { choice: name(gateway.mode) }),
    bytes: room(gateway.bytes, gateway.max_bytes),
    entries: say(words.answers, { count: numbers.format(gateway.entries) }),
    watermark: known(gateway.watermark, percent),
    watermark_from: words.watermark_from[gateway.watermark_from] || "",
    hit_rate: known(gateway.hit_rate, percent),
    ceiling: known(gateway.ceiling, percent),
    evictions: numbers.format(gateway.evictions),
    filter_fill: known(gateway.filter_fill, percent),
  });
  row.querySelector('[data-field="paused"]').hidden = !gateway.paused;
  row.querySelector('[data-bar="bytes"]').replaceChildren(meter(gateway.bytes, gateway.max_bytes, null, false));
};

const fillPolicy = (row, { label, rate, inForce, most }) => {
  write(row, { name: label, rate: percent(rate), in_force: inForce ? words.in_force : "" });
  row.querySelector('[data-field="in_force"]').hidden = !inForce;
  row.querySelector('[data-bar="rate"]').replaceChildren(meter(rate, most, null, false));
};

const policies = (gateways) => {
  const told = gateways.filter(({ sampled }) => sampled > 0);
  if (!told.length) return [];
  const used = new Set(told.map(({ policy }) => policy));
  const text = (id) => document.getElementById(id).content.textContent.trim();
  const ceiling = mean(told, (gateway) => gateway.ghost_ceiling);
  const found = Object.keys(told[0].ghosts)
    .map((policy) => ({ label: name(policy), rate: mean(told, ({ ghosts }) => ghosts[policy]), inForce: used.has(policy) }))
    .sort((one, other) => other.rate - one.rate);
  const best = { label: text("best-row-name"), rate: mean(told, (gateway) => gateway.best_possible), inForce: false };
  const all = [{ label: text("ceiling-row-name"), rate: ceiling, inForce: false }, best, ...found];
  const most = Math.max(0.01, ...all.map(({ rate }) => rate));
  return all.map((entry) => ({ ...entry, most }));
};

const fillDecision = (row, decision) => {
  write(row, {
    at: time(decision.at),
    gateway: decision.gateway,
    before: name(decision.before),
    after: name(decision.after),
    why: words.why[decision.why] || decision.why,
    watermark: known(decision.watermark, percent),
    hit_rate: known(decision.hit_rate, percent),
    ceiling: known(decision.ceiling, percent),
  });
};

const fillAction = (row, action) => {
  const { id: _id, at, ...texts } = action;
  write(row, { at: time(at), ...texts });
};

const tiles = (gateways) => {
  const count = (outcome) => sum(gateways, ({ answers }) => answers[outcome]);
  const outcomes = { hit_local: count("hit_local"), hit_store: count("hit_store"), coalesced: count("coalesced"), stale: count("stale") };
  const saved = Object.values(outcomes).reduce((total, value) => total + value, 0);
  const all = saved + count("miss");
  const hits = mean(gateways, (gateway) => gateway.hit_rate);
  const ceiling = mean(gateways, (gateway) => gateway.ceiling);
  write(live, {
    answered: all ? percent(saved / all) : "–",
    answers_by: all ? say(words.answered_by, Object.fromEntries(Object.entries(outcomes).map(([key, value]) => [key, percent(value / all)]))) : "",
    hit_rate: known(hits, percent),
    reached: hits !== null && ceiling ? say(words.reached, { share: percent(Math.min(1, hits / ceiling)) }) : "",
    ceiling: known(hits === null ? null : ceiling, percent),
    watermark: known(gateways.length ? Math.max(...gateways.map((gateway) => gateway.watermark || 0)) : null, percent),
  });
};

const drawChart = (history, decisions) => {
  const series = Object.entries(shares).map(([field, colour]) => ({
    name: words[field],
    colour,
    points: history.filter((minute) => minute[field] !== null).map((minute) => ({ at: minute.at, value: minute[field] })),
  }));
  const enough = history.length > 1;
  hide("chart-empty", enough);
  hide("chart-key", !enough);
  const chart = document.getElementById("chart");
  if (!enough) {
    chart.replaceChildren();
    return;
  }
  const marks = decisions.map((decision) => ({
    at: decision.at,
    title: say(words.changed, {
      time: time(decision.at),
      gateway: decision.gateway,
      before: name(decision.before),
      after: name(decision.after),
      why: words.why[decision.why] || decision.why,
    }),
  }));
  chart.replaceChildren(lines(series, marks, words.chart, Math.max(320, chart.clientWidth)));
};

const drawStore = (store, most) => {
  hide("store", store === null);
  hide("store-empty", store !== null);
  if (store === null) return;
  const bytes = store.once_bytes + store.more_bytes;
  live.querySelector('[data-bar="store"]').replaceChildren(meter(bytes, most, null, false));
  write(live, {
    store_bytes: room(bytes, most),
    once: say(words.answers, { count: numbers.format(store.once) }),
    more: say(words.answers, { count: numbers.format(store.more) }),
    evicted: numbers.format(store.evicted),
    expired: numbers.format(store.expired),
  });
};

const show = (state) => {
  const { gateways } = state;
  const notices = [state.on ? "" : words.off, gateways.some(({ paused }) => paused) ? words.paused : ""].filter(Boolean);
  document.getElementById("notice").textContent = notices.join(" ");
  hide("notice", notices.length === 0);
  tiles(gateways);
  rows("gateways", "gateway-row", gateways, fillGateway);
  hide("gateways-panel", gateways.length === 0);
  rows("policies", "policy-row", policies(gateways), fillPolicy);
  rows("decisions", "decision-row", state.decisions, fillDecision);
  hide("decisions-table", state.decisions.length === 0);
  rows("actions", "action-row", state.actions, fillAction);
  hide("actions-panel", state.actions.length === 0);
  write(live, {
    fixed: state.fixed
      ? say(words.fixed, { choice: name(state.fixed), by_whom: state.fixed_by })
      : say(words.follows, { choice: name(state.setting) }),
  });
  for (const link of live.querySelectorAll("[data-choice]")) link.hidden = link.dataset.choice === state.fixed;
  drawStore(state.store, state.store_max_bytes);
  drawChart(state.history, state.decisions);
  // Unknown is not the same as none.
  if (state.error) live.querySelector('[data-empty="gateways"]').hidden = true;
};

poll(live.dataset.url, show);
