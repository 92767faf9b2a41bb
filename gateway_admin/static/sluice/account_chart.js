// A chart of stacked bars as SVG: one bar a bucket, one colour a group.
import { brief } from "./account_numbers.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 240;
const EDGE = { left: 64, right: 8, top: 12, bottom: 26 };
const LINES = 4;
const LABEL_WIDTH = 84;

const make = (name, attributes, text = "") => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
};

// The smallest round number of the form 1, 2, 2.5 or 5 times a power of ten that is not below `least`.
const roundUp = (least) => {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999999);
};

// What lies between two lines, and how many lines there are.
const scaleOf = (bars, measure) => {
  const most = Math.max(...bars.map(({ parts }) => parts.reduce((sum, part) => sum + part.value, 0)));
  const least = measure === "cost" ? 0 : 1;
  const step = most > 0 ? Math.max(least, roundUp(most / LINES)) : 1;
  return { step, lines: Math.max(1, Math.ceil(most / step - 1e-6)) };
};

const grid = (svg, width, { step, lines }, measure) => {
  const plot = HEIGHT - EDGE.top - EDGE.bottom;
  for (let line = 0; line <= lines; line += 1) {
    const y = HEIGHT - EDGE.bottom - (plot * line) / lines;
    svg.append(make("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y, y2: y }));
    svg.append(make("text", { x: EDGE.left - 8, y: y + 4, "text-anchor": "end" }, brief(measure, step * line)));
  }
};

// bars: [{ label, title, parts: [{ colour, value, title }] }]
export const chart = (bars, measure, label, width) => {
  const svg = make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", "aria-label": label });
  const scale = scaleOf(bars, measure);
  grid(svg, width, scale, measure);
  const room = (width - EDGE.left - EDGE.right) / bars.length;
  const every = Math.ceil(LABEL_WIDTH / room);
  bars.forEach((bar, place) => {
    const x = EDGE.left + place * room;
    let y = HEIGHT - EDGE.bottom;
    for (const { colour, value, title } of bar.parts) {
      const height = ((HEIGHT - EDGE.top - EDGE.bottom) * value) / (scale.step * scale.lines);
      y -= height;
      const part = make("rect", { x: x + room * 0.12, y, width: room * 0.76, height, class: colour });
      part.append(make("title", {}, title));
      svg.append(part);
    }
    if (place % every === 0) svg.append(make("text", { x: x + room / 2, y: HEIGHT - 8, "text-anchor": "middle" }, bar.label));
  });
  return svg;
};
