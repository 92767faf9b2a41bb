// Limits and budgets as bars, and how long requests wait.
import { count, duration, nanoOf, roughly, say, time, words } from "./account_numbers.js";

const NEAR = 0.9;
const byId = (id) => document.getElementById(id);

const element = (name, text = "", className = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
};

const share = (part, whole) => Math.max(0, Math.min(1, Number(part) / Number(whole)));

// A bar of what is used, then what is held; the text beside it says the same, so it is hidden from readers.
const bar = (used, held, limit, mark = null) => {
  const whole = element("div", "", "bar");
  const [first, second] = [share(used, limit), share(held, limit)];
  whole.ariaHidden = "true";
  whole.dataset.level = first + second >= 1 ? "full" : first + second >= NEAR ? "near" : "";
  const parts = [element("span"), element("span", "", "held")];
  parts[0].style.width = `${(first * 100).toFixed(2)}%`;
  parts[1].style.width = `${(Math.min(second, 1 - first) * 100).toFixed(2)}%`;
  whole.append(...parts);
  if (mark !== null) {
    const line = element("i");
    line.style.left = `${(share(mark, limit) * 100).toFixed(2)}%`;
    whole.append(line);
  }
  return whole;
};

// One line under a bar: the first text to the left, the others to the right of it.
const split = (...texts) => {
  const line = element("div", "", "split");
  line.append(...texts.filter(Boolean).map((text) => element("span", text)));
  return line;
};

const quietly = (...texts) => {
  const line = split(...texts);
  line.classList.add("quiet");
  return line;
};

const plain = (value) => (typeof value === "string" ? nanoOf(value) : value);

const resets = (limit, at) => {
  if (limit.resets_at === null) return words.at_once;
  if (limit.per !== "minute") return say(words.resets, { time: time(limit.resets_at) });
  const ms = (limit.resets_at - at) * 1000;
  return limit.used > 0 && ms > 0 ? say(words.full_in, { time: duration(ms) }) : words.full;
};

const limitRow = (limit, rivals, { at, currency }) => {
  const show = (value) => (limit.counts === "cost" ? `${roughly(value)} ${currency}` : count(value));
  const row = element("li");
  row.dataset.limit = `${limit.level}:${limit.name}`;
  const whose = words.levels[limit.level];
  const head = element("div", "", "split");
  head.append(element("strong", words.limits[limit.name] || limit.name));
  head.append(element("span", rivals && limit.in_force ? say(words.ends_first, { whose }) : whose, "quiet"));
  const none = plain(limit.remaining) <= 0;
  row.append(
    head,
    bar(plain(limit.used), plain(limit.held), plain(limit.limit)),
    split(say(words.of, { used: show(limit.used), limit: show(limit.limit) }), none ? words.used_up : say(words.remaining, { remaining: show(limit.remaining) })),
    quietly(plain(limit.held) > 0 ? say(words.held, { held: show(limit.held) }) : "", limit.known ? resets(limit, at) : words.unknown),
  );
  return row;
};

const queueRow = (queue) => {
  const row = element("tr");
  const wait = (ms) => (ms === null ? "–" : duration(ms));
  const head = element("th", queue.model);
  head.scope = "row";
  const texts = [words.classes[queue.class], queue.service_tier, count(queue.waiting), wait(queue.median_wait_ms), wait(queue.p95_wait_ms)];
  row.append(head, ...texts.map((text) => element("td", text)));
  return row;
};

export const showLimits = (report) => {
  byId("signed").textContent = say(words.signed, report);
  byId("scopes").textContent = report.scopes.map((scope) => words.scopes[scope] || scope).join(" · ");
  const order = Object.keys(words.limits);
  const limits = [...report.limits].sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
  const rivals = ({ name }) => limits.filter((limit) => limit.name === name).length > 1;
  byId("limits").replaceChildren(...limits.map((limit) => limitRow(limit, rivals(limit), report)));
  byId("no-limits").hidden = report.limits.length > 0;
  byId("queues").replaceChildren(...report.queues.map(queueRow));
  byId("refreshed").textContent = time(report.at);
};

const budgetCard = (title, budget, show, resetsAt) => {
  const card = element("div");
  const { spent, hard, soft, remaining } = budget;
  card.append(element("span", title, "quiet"));
  if (hard === null) {
    card.append(element("strong", show(spent)));
    card.append(quietly(soft === null ? "" : say(words.soft, { soft: show(soft) })));
    return card;
  }
  card.append(element("strong", say(words.of, { used: show(spent), limit: show(hard) })));
  card.append(bar(plain(spent), 0, plain(hard), soft === null ? null : plain(soft)));
  card.append(split(plain(remaining) > 0 ? say(words.remaining, { remaining: show(remaining) }) : words.used_up, say(words.resets, { time: time(resetsAt) })));
  if (soft !== null) card.append(quietly(say(words.soft, { soft: show(soft) })));
  return card;
};

export const showBudget = ({ budget, currency }) => {
  byId("budget").replaceChildren(
    budgetCard(words.measures.cost, budget.cost, (value) => `${roughly(value)} ${currency}`, budget.resets_at),
    budgetCard(words.measures.tokens, budget.tokens, count, budget.resets_at),
  );
};
