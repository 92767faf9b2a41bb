// A chart of shares over time as SVG: one line a series, a mark where something changed.
import { percent } from "./live.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 200;
const EDGE = { left: 52, right: 12, top: 10, bottom: 24 };
const LABEL_WIDTH = 90;
// Longer without a figure, and the line is broken.
const GAP_S = 150;

const make = (name, attributes, text = "") => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
};

const clock = (seconds) => `${new Date(seconds * 1000).toISOString().slice(11, 16)}Z`;

const path = (points, x, y) => {
  let before = null;
  return points
    .map(({ at, value }) => {
      const step = before === null || at - before > GAP_S ? "M" : "L";
      before = at;
      return `${step}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    })
    .join("");
};

// series: [{ name, colour, points: [{ at, value }] }], marks: [{ at, title }], of one time at least
export const lines = (series, marks, label, width) => {
  const times = series.flatMap(({ points }) => points.map(({ at }) => at));
  const [begin, end] = [Math.min(...times), Math.max(...times)];
  const x = (at) => EDGE.left + ((at - begin) / Math.max(1, end - begin)) * (width - EDGE.left - EDGE.right);
  const y = (share) => HEIGHT - EDGE.bottom - share * (HEIGHT - EDGE.top - EDGE.bottom);
  const svg = make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", "aria-label": label });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(make("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(share), y2: y(share), class: "sluice-grid" }));
    svg.append(make("text", { x: EDGE.left - 8, y: y(share) + 4, "text-anchor": "end" }, percent(share)));
  }
  const minutes = Math.floor((end - begin) / 60); // no minute is named twice
  const labels = Math.max(1, Math.min(minutes, Math.floor((width - EDGE.left) / LABEL_WIDTH / 2)));
  for (let place = 0; place <= labels; place += 1) {
    const at = begin + ((end - begin) * place) / labels;
    const anchor = place === 0 ? "start" : place === labels ? "end" : "middle";
    svg.append(make("text", { x: x(at), y: HEIGHT - 6, "text-anchor": anchor }, clock(at)));
  }
  for (const { at, title } of marks.filter((mark) => mark.at >= begin && mark.at <= end + 60)) {
    const line = make("line", { x1: x(Math.min(at, end)), x2: x(Math.min(at, end)), y1: y(0), y2: y(1), class: "sluice-line-change" });
    line.append(make("title", {}, title));
    svg.append(line);
  }
  for (const { name, colour, points } of series) {
    const line = make("path", { d: path(points, x, y), class: colour });
    line.append(make("title", {}, name));
    svg.append(line);
  }
  return svg;
};
