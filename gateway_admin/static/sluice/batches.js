// Fills the page "Batches" from its JSON every two seconds.
import { numbers, say, words } from "./live.js";
import { badge, perMinute, writeBatch, writeResult } from "./batches_progress.js";
import { choices, hide, list, watch, write } from "./watch.js";

const PERIOD_MS = 2000;

const live = document.getElementById("live");
const form = document.getElementById("choices");
const title = document.title;

const link = (row, { id, url }) => {
  const anchor = row.querySelector('[data-field="id"]');
  if (url) anchor.href = url;
  anchor.hidden = !url;
  write(row, { id });
};

const fillTrouble = (row, trouble) => {
  row.dataset.level = trouble.level;
  link(row, trouble);
  write(row, { text: trouble.text });
};

const fillName = (row, batch) => {
  link(row, batch);
  badge(row, "status", batch.tone, batch.status_name);
  write(row, { tenant: batch.tenant, asks: [batch.model, batch.endpoint].filter(Boolean).join(" · ") });
};

const fillOpen = (row, batch) => {
  fillName(row, batch);
  writeBatch(row, batch);
  // A late end is told beside it; what stands still tells what it waits for.
  const warning = batch.end.level === "bad" ? "" : batch.warning;
  write(row, { warning, waits: warning ? "" : row.querySelector('[data-field="waits"]').textContent });
};

const fillEnded = (row, batch) => {
  fillName(row, batch);
  writeResult(row, batch);
  if (batch.errors) write(row, { progress: say(words.errors, { count: numbers.format(batch.errors) }), counts: "" });
  row.querySelector('[data-bar="progress"]').hidden = !batch.total;
  write(row, { created: batch.created, ended: batch.ended, took: batch.took && say(words.took, { time: batch.took }) });
};

const writeTroubles = ({ troubles, open }) => {
  const quiet = { key: "quiet", level: "good", text: words.quiet, id: "", url: "" };
  document.title = troubles.length ? `(${troubles.length}) ${title}` : title;
  list(document.getElementById("troubles"), "trouble-row", open.length && !troubles.length ? [quiet] : troubles, ({ key }) => key, fillTrouble);
};

const writeFigures = ({ figures, open }) => {
  write(live, {
    open: numbers.format(figures.open),
    left: numbers.format(figures.left),
    part: figures.is_part ? say(words.part, { shown: numbers.format(open.length) }) : "",
    per_minute: perMinute(figures.per_minute),
    late: numbers.format(figures.late),
  });
  live.querySelector('[data-tile="late"]').dataset.level = figures.late ? "bad" : "";
};

const writeOpen = ({ open, open_total: total }) => {
  list(document.getElementById("open"), "open-row", open, ({ id }) => id, fillOpen);
  hide("open-table", !open.length);
  hide("no-open", open.length > 0);
  hide("open-more", total <= open.length);
  document.getElementById("open-more").textContent = say(words.shown, { shown: numbers.format(open.length), total: numbers.format(total) });
};

const writeEnded = ({ ended, newer, older, page }) => {
  list(document.getElementById("ended"), "ended-row", ended, ({ id }) => id, fillEnded);
  hide("ended-table", !ended.length);
  hide("no-ended", ended.length > 0);
  hide("pages", !newer && !older);
  for (const [name, url] of Object.entries({ newer, older })) {
    const anchor = live.querySelector(`[data-page="${name}"]`);
    anchor.hidden = !url;
    if (url) anchor.href = url;
  }
  write(document.getElementById("pages"), { page: say(words.page, { page: numbers.format(page) }) });
};

const show = (state) => {
  hide("empty", !state.is_empty);
  for (const id of ["figures", "choices", "open-panel", "ended-panel"]) hide(id, state.is_empty);
  writeTroubles(state);
  writeFigures(state);
  writeOpen(state);
  writeEnded(state);
  return PERIOD_MS;
};

let chosen = () => new URLSearchParams(window.location.search);
const again = watch(() => `${live.dataset.url}?${chosen()}`, show);
// A choice begins on the first page again.
const asked = choices(form, () => {
  chosen = asked;
  again();
});
