// Fills the panel "Limits now" from its JSON every two seconds. Numbers come as texts in the operator's language.
import { poll } from "./live.js";

const live = document.getElementById("live");
const TEXTS = ["name", "whose", "used", "held", "left", "cap", "resets"];

const part = (className, share) => {
  const made = document.createElement("span");
  made.className = className;
  made.style.width = `${(share * 100).toFixed(1)}%`;
  return made;
};

const bar = ({ level, used_share: used, held_share: held }) => {
  const whole = document.createElement("span");
  whole.className = "sluice-bar";
  const colour = { full: "sluice-over", near: "sluice-full" }[level] || "";
  whole.append(part(colour, used), part("sluice-held", Math.min(held, 1 - used)));
  return whole;
};

const rowOf = (limit) => {
  const old = live.querySelector(`[data-limit="${limit.key}"]`);
  const row = old || document.getElementById("limit-row").content.firstElementChild.cloneNode(true);
  row.dataset.limit = limit.key;
  row.dataset.level = limit.level;
  row.classList.toggle("sluice-faded", !limit.in_force);
  for (const name of TEXTS) row.querySelector(`[data-field="${name}"]`).textContent = limit[name] || (name === "held" ? "–" : "");
  row.querySelector('[data-field="known"]').hidden = limit.known;
  row.querySelector('[data-field="in_force"]').hidden = limit.in_force;
  row.querySelector('[data-bar="share"]').replaceChildren(bar(limit));
  return row;
};

const draw = (state) => {
  document.getElementById("limits").replaceChildren(...state.limits.map(rowOf));
  live.querySelector('[data-empty="limits"]').hidden = state.limits.length > 0;
};

poll(live.dataset.url, draw);
