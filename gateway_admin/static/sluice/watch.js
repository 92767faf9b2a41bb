// What the pages Now, Heat map and Service map share: asking at their own pace, and changing in place what stands, so that
// whoever is on a link with the keyboard stays there.
import { numbers, percent, time, words } from "./live.js";

const PATIENCE_MS = 10000;
const RETRY_MS = 2000;
const SVG = "http://www.w3.org/2000/svg";

const tenths = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });
const digits = new Intl.NumberFormat(document.documentElement.lang, { maximumSignificantDigits: 2 });

export const known = (value, show) => (value === null || value === undefined ? "–" : show(value));

// Something is never shown as nothing: 0.02/s, 1.3/s, 250/s.
export const fine = (value) => (value < 1 ? digits : tenths).format(value < 100 ? value : Math.round(value));

export const millis = (ms) => {
  if (ms < 1000) return words.ms.replace("{}", ms < 10 ? tenths.format(ms) : numbers.format(Math.round(ms)));
  if (ms < 60000) return words.s.replace("{}", tenths.format(ms / 1000));
  return words.min.replace("{}", tenths.format(ms / 60000));
};

// Likewise of a share.
export const share = (part, whole) => (part > 0 && part / whole < 0.001 ? `< ${percent(0.001)}` : percent(whole ? part / whole : 0));

export const svg = (name, attributes, text = "") => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
};

export const write = (root, fields) => {
  for (const [field, value] of Object.entries(fields)) {
    const element = root.querySelector(`[data-field="${field}"]`);
    if (element.textContent !== value) element.textContent = value;
  }
};

export const hide = (id, hidden) => {
  document.getElementById(id).hidden = hidden;
};

// One child for each item, in this order; a child stays as long as its key does, and so does the focus.
export const list = (parent, template, items, key, fill) => {
  const focused = document.activeElement;
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const after = items.map((item) => {
    const name = String(key(item));
    const child = before.get(name) || document.getElementById(template).content.firstElementChild.cloneNode(true);
    child.dataset.key = name;
    fill(child, item);
    return child;
  });
  if (after.length !== parent.children.length || after.some((child, place) => child !== parent.children[place])) {
    parent.replaceChildren(...after);
    if (focused && focused !== document.activeElement && parent.contains(focused)) focused.focus();
  }
};

const ask = async (url) => {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.redirected) window.location.reload(); // the login has ended
    return answer.ok && !answer.redirected ? await answer.json() : null;
  } catch {
    return null;
  }
};

// `address` gives the URL to ask next, `draw` shows an answer and returns after how many ms to ask again, 0 for never.
// Returns what asks at once, for when a choice has changed.
export const watch = (address, draw) => {
  let timer = 0;
  let turn = 0;
  const show = (state) => {
    hide("page-error", state !== null);
    if (state === null) return RETRY_MS;
    const alert = document.getElementById("valkey-error");
    if (alert) {
      alert.hidden = !state.error;
      alert.querySelector('[data-field="error"]').textContent = state.error;
    }
    document.getElementById("refreshed").textContent = time(state.at);
    return draw(state);
  };
  const next = async () => {
    window.clearTimeout(timer);
    turn += 1;
    const own = turn;
    const state = await ask(address());
    if (own !== turn) return; // a later choice is under way
    const pause_ms = show(state);
    if (pause_ms && !document.hidden) timer = window.setTimeout(next, pause_ms);
    if (pause_ms && document.hidden) document.addEventListener("visibilitychange", next, { once: true });
  };
  next();
  return next;
};

// The choices of a page stand in its address, so that it can be shared.
export const choices = (form, changed) => {
  const chosen = () => new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  form.addEventListener("change", () => {
    window.history.replaceState(null, "", `?${chosen()}`);
    changed();
  });
  return chosen;
};
