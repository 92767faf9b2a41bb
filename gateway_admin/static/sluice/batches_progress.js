// What the pages of batches share: how far something is, as a bar and in words, and how one open batch stands.
import { numbers, percent, say, words } from "./live.js";
import { fine, known, write } from "./watch.js";

const part = (name, share) => {
  const made = document.createElement("span");
  made.className = name;
  made.style.width = `${(share * 100).toFixed(2)}%`;
  return made;
};

// `completed` and `failed` of `total`; the words beside it say the same, so it is hidden from screen readers.
const bar = (completed, failed, total) => {
  const whole = document.createElement("span");
  whole.className = "sluice-bar";
  whole.setAttribute("aria-hidden", "true");
  if (total) whole.append(part("", completed / total), part("sluice-over", failed / total));
  return whole;
};

// All of it only when it is all.
const share = (part, total) => say(words.progress, { share: percent(Math.floor((part / total) * 1000) / 1000), total: numbers.format(total) });

export const writeProgress = (root, { completed, failed, total }) => {
  root.querySelector('[data-bar="progress"]').replaceChildren(bar(completed, failed, total));
  write(root, {
    progress: total ? share(completed + failed, total) : words.unchecked,
    counts: total ? say(words.counts, { completed: numbers.format(completed), failed: numbers.format(failed) }) : "",
  });
};

// Of what has ended: who was not answered counts as failed, whatever the cause.
export const writeResult = (root, { completed, failed, total }) => {
  writeProgress(root, { completed, failed, total });
  if (!total) return;
  write(root, {
    progress: say(words.result, { completed: numbers.format(completed), total: numbers.format(total) }),
    counts: failed ? say(words.unanswered, { count: numbers.format(failed) }) : "",
  });
};

export const perMinute = (count) => known(count, (value) => say(words.per_minute, { count: value ? fine(value) : "0" }));

export const badge = (root, field, tone, text) => {
  root.querySelector(`[data-field="${field}"]`).dataset.state = tone;
  write(root, { [field]: text });
};

export const writeBatch = (root, batch) => {
  const { end } = batch;
  const late = end.level === "bad";
  writeProgress(root, batch);
  write(root, {
    waits: batch.waits ? say(words.waits, { why: batch.waits }) : "",
    rate: perMinute(batch.per_minute),
    rate_note: batch.rate_note,
    when: end.when,
    when_at: end.at,
    when_note: end.note,
    expires: batch.expires,
    expires_in: batch.expires_in,
  });
  root.querySelector('[data-field="when_note"]').className = late ? "sluice-bad" : "sluice-quiet";
};
