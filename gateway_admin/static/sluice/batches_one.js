// Fills the page of one batch from its JSON every two seconds, until the batch has ended.
import { numbers } from "./live.js";
import { badge, writeBatch, writeProgress, writeResult } from "./batches_progress.js";
import { hide, list, watch, write } from "./watch.js";

const PERIOD_MS = 2000;

const live = document.getElementById("live");
const panel = live.querySelector('[aria-labelledby="progress-title"]');

const fillSlice = (row, slice) => {
  badge(row, "state", slice.tone, slice.state_name);
  writeProgress(row, { ...slice, total: slice.lines });
  write(row, {
    number: numbers.format(slice.number),
    first_line: numbers.format(slice.first_line),
    held_by: slice.held_by || "–",
    attempt: numbers.format(slice.attempt),
  });
};

const writeWarning = ({ level, warning }) => {
  const shown = document.getElementById("warning");
  shown.className = level === "bad" ? "sluice-alert" : "sluice-notice";
  if (shown.textContent !== warning) shown.textContent = warning;
  shown.hidden = !warning;
};

const show = ({ batch, slices }) => {
  if (batch.status !== live.dataset.status) {
    window.location.reload(); // its times and buttons are others now
    return 0;
  }
  const isOpen = batch.end !== undefined;
  if (isOpen) {
    writeBatch(panel, batch);
    writeWarning(batch);
  } else {
    writeResult(panel, batch);
  }
  list(document.getElementById("slices"), "slice-row", slices, ({ number }) => number, fillSlice);
  hide("slices-table", !slices.length);
  hide("no-slices", slices.length > 0);
  return isOpen ? PERIOD_MS : 0;
};

watch(() => live.dataset.url, show);
