// Fills the page "Service map" from its JSON every five seconds: the drawing, and the table that says the same.
import { numbers, say, time, words } from "./live.js";
import { choices, fine, hide, known, list, millis, svg, watch, write } from "./watch.js";

const PERIOD_MS = 5000;
const WIDTH = 1000;
const ROW = 112;
const HEIGHT = 62;
const WIDTHS = { client: 80, gateway: 136, store: 112, broker: 112, worker: 124, engine: 84 };
const COLUMNS = { client: 42, gateway: 254, store: 510, broker: 510, worker: 760, engine: 956 };
// Store and broker stand so far above and below the middle.
const APART = 74;
// A label stands on its line at this part of the way from the process, so that those of two lines do not meet.
const NEAR = { client: 0.5, store: 0.36, broker: 0.36, engine: 0.5 };

const live = document.getElementById("live");

const nameOf = ({ kind, name }) => {
  if (name === words.others_mark) return words.others[kind];
  if (kind === "engine") return say(words.engine_of, { name });
  return name || words.kinds[kind];
};

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const place = (nodes) => {
  const counts = nodes.reduce((found, { kind }) => ({ ...found, [kind]: (found[kind] || 0) + 1 }), {});
  const height = Math.max(ROW * Math.max(counts.gateway || 1, counts.worker || 1), 2 * APART + HEIGHT + 40);
  const seen = {};
  const places = new Map();
  for (const node of nodes) {
    const { kind } = node;
    seen[kind] = (seen[kind] || 0) + 1;
    const inTurn = ((seen[kind] - 0.5) * height) / counts[kind];
    const y = { store: height / 2 + APART, broker: height / 2 - APART }[kind] ?? inTurn;
    places.set(node.id, { x: COLUMNS[kind], y, node });
  }
  return { places, height };
};

const box = ({ x, y, node }) => {
  const made = svg("g", { class: "sluice-node" });
  const width = WIDTHS[node.kind];
  made.append(svg("title", {}, nameOf(node)));
  made.append(svg("rect", { x: x - width / 2, y: y - HEIGHT / 2, width, height: HEIGHT, rx: 8 }));
  // An engine stands beside the worker that it belongs to.
  const name = node.kind === "engine" ? "" : cut(node.name, 19);
  const lines = [
    [words.kinds[node.kind], "sluice-node-kind"],
    ...(name ? [[node.name === words.others_mark ? nameOf(node) : name, "sluice-node-name"]] : []),
    ...(node.requests ? [[say(words.per_s, { count: fine(node.per_s) }), "sluice-node-rate"]] : []),
  ];
  const begin = y - (lines.length - 1) * 8.5 + 4;
  lines.forEach(([text, look], number) => made.append(svg("text", { x, y: begin + number * 17, "text-anchor": "middle", class: look }, text)));
  return made;
};

// Both directions between two nodes are one line; the process, whose times these are, is at its first end.
const pairs = (edges, places) => {
  const found = new Map();
  for (const edge of edges) {
    const isOut = ["gateway", "worker"].includes(places.get(edge.source).node.kind);
    const [near, far] = isOut ? [edge.source, edge.target] : [edge.target, edge.source];
    const pair = found.get(`${near} ${far}`) || { near: places.get(near), far: places.get(far), edges: [] };
    pair.edges.push(edge);
    found.set(`${near} ${far}`, pair);
  }
  return [...found.values()];
};

// One line of text for the time of a direction, and one for what fails there.
const textsOf = (edge, { near, far }) => {
  const isRight = (edge.source === near.node.id) === far.x > near.x;
  const timed = edge.p95_ms === null ? [] : [[`${isRight ? "→" : "←"} ${words.label[edge.what]} ${millis(edge.p95_ms)}`, edge.slow ? "sluice-edge-slow" : ""]];
  return edge.errors ? [...timed, [`✕ ${numbers.format(edge.errors)}`, "sluice-edge-bad"]] : timed;
};

const worst = (edges) => (edges.some(({ errors }) => errors) ? "sluice-edge-bad" : edges.some(({ slow }) => slow) ? "sluice-edge-slow" : "");

const ends = (near, far) => {
  const side = Math.sign(far.x - near.x) / 2;
  return [near.x + side * WIDTHS[near.node.kind], far.x - side * WIDTHS[far.node.kind]];
};

const line = ({ near, far, edges }) => {
  const [begin, end] = ends(near, far);
  return svg("line", { x1: begin, y1: near.y, x2: end, y2: far.y, class: `sluice-edge ${worst(edges)}` });
};

const labels = (pair) => {
  const { near, far, edges } = pair;
  const [begin, end] = ends(near, far);
  const part = NEAR[far.node.kind];
  const [x, y] = [begin + (end - begin) * part, near.y + (far.y - near.y) * part];
  const texts = edges.flatMap((edge) => textsOf(edge, pair).map((one) => [...one, edge.what]));
  return texts.map(([text, look, what], number) => {
    const height = y + 4 + (number - (texts.length - 1) / 2) * 15;
    const made = svg("text", { x, y: height, "text-anchor": "middle", class: `sluice-edge-label ${look}` }, text);
    made.append(svg("title", {}, words.what[what]));
    return made;
  });
};

const draw = ({ nodes, edges }, seconds) => {
  const { places, height } = place(nodes.map((node) => ({ ...node, per_s: node.requests / seconds })));
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": words.map });
  const found = pairs(edges, places);
  drawn.append(...found.map(line), ...[...places.values()].map(box), ...found.flatMap(labels));
  return drawn;
};

const fillEdge = (row, { edge, names }) => {
  write(row, {
    source: names.get(edge.source),
    target: names.get(edge.target),
    what: words.what[edge.what],
    per_s: fine(edge.per_s),
    typical: known(edge.typical_ms, millis),
    p95: known(edge.p95_ms, millis),
    errors: numbers.format(edge.errors),
    times: edge.p95_ms === null ? "–" : say(words.times, { times: fine(edge.p95_ms / Math.max(0.001, edge.typical_ms)) }),
    slow: edge.slow ? words.slow : "",
    failed: edge.errors ? say(words.failed, { count: numbers.format(edge.errors) }) : "",
  });
  for (const [field, isShown] of [["slow", edge.slow], ["failed", edge.errors > 0]]) row.querySelector(`[data-field="${field}"]`).hidden = !isShown;
};

const verdict = (edges) => {
  const slow = [...new Set(edges.filter((edge) => edge.slow).map(({ what }) => words.short[what]))];
  const failed = edges.filter(({ what }) => what === "answer").reduce((total, { errors }) => total + errors, 0);
  const parts = [
    failed ? say(words.some_fail, { count: numbers.format(failed) }) : "",
    slow.length ? say(words.some_slow, { hops: slow.join(words.comma) }) : "",
  ];
  const place = document.querySelector('#verdict [data-field="verdict"]');
  const text = parts.filter(Boolean).join(" ") || words.calm;
  place.dataset.level = failed ? "bad" : slow.length ? "wait" : "good";
  if (place.textContent !== text) place.textContent = text;
};

const show = (state) => {
  const { nodes, edges } = state;
  const isEmpty = nodes.length === 0;
  hide("map-empty", !isEmpty);
  for (const id of ["map-panel", "edges-panel", "verdict"]) hide(id, isEmpty);
  const spanned = { count: numbers.format(state.requests), since: time(state.since), until: time(state.at) };
  write(live, { between: isEmpty ? "" : say(words.between, spanned), sampled: state.sampled ? words.sampled : "" });
  document.getElementById("map").replaceChildren(...(isEmpty ? [] : [draw(state, state.at - state.since)]));
  const names = new Map(nodes.map((node) => [node.id, nameOf(node)]));
  list(document.getElementById("edges"), "edge-row", edges.map((edge) => ({ edge, names })), ({ edge }) => [edge.source, edge.target, edge.what].join(" "), fillEdge);
  verdict(edges);
  return PERIOD_MS;
};

const chosen = choices(document.getElementById("choices"), () => again());
const again = watch(() => `${live.dataset.url}?${chosen()}`, show);
