// Fills the page "Engines" from its JSON every two seconds. Texts come from the page, so they are translated.
import { bar, numbers, poll, time, words } from "./live.js";

const live = document.getElementById("live");

const figure = (name, value) => {
  live.querySelector(`[data-figure="${name}"]`).textContent = value;
};
const sum = (rows, field) => rows.reduce((total, row) => total + row[field], 0);

const row = (template, fields, bars = {}) => {
  const made = document.getElementById(template).content.cloneNode(true);
  for (const [name, value] of Object.entries(fields)) {
    made.querySelector(`[data-field="${name}"]`).textContent = value;
  }
  for (const [name, parts] of Object.entries(bars)) {
    made.querySelector(`[data-bar="${name}"]`).append(...parts);
  }
  return made;
};

const fill = (id, rows) => {
  document.getElementById(id).replaceChildren(...rows);
  live.querySelector(`[data-empty="${id}"]`).hidden = rows.length > 0;
};

const workerRow = (worker) => {
  const known = worker.state === "ready" || worker.state === "draining";
  const made = row(
    "worker-row",
    {
      id: worker.id,
      place: `${worker.host} · pid ${worker.pid}`,
      state: words.state[worker.state] || worker.state || "–",
      switch: worker.switch === "open" ? "" : words.switch[worker.switch],
      reason: worker.reason,
      model: worker.model,
      engine: [worker.engine, worker.version, worker.dtype].filter(Boolean).join(" · "),
      running: numbers.format(worker.running),
      since: worker.started_at ? time(worker.started_at) : "–",
    },
    {
      sequences: bar(worker.max_num_seqs - worker.free_seqs, known ? worker.max_num_seqs : 0),
      blocks: bar(worker.kv_blocks - worker.free_kv_blocks, known && worker.free_kv_blocks !== null ? worker.kv_blocks : 0),
    },
  );
  made.querySelector('[data-field="state"]').dataset.state = worker.state;
  const switched = made.querySelector('[data-field="switch"]');
  switched.dataset.state = worker.switch;
  switched.hidden = worker.switch === "open";
  return made;
};

const slotRow = (slot) => {
  const made = row("slot-row", { tenant: slot.tenant }, { slots: bar(slot.running, slot.limit) });
  if (!slot.limit) {
    made.querySelector('[data-bar="slots"]').textContent = `${numbers.format(slot.running)} (${words.no_limit})`;
  }
  return made;
};

const draw = (state) => {
  const ready = state.workers.filter((worker) => worker.state === "ready").length;
  figure("gateways", state.error ? "–" : numbers.format(state.gateways.length));
  figure("workers", state.error ? "–" : `${numbers.format(ready)} / ${numbers.format(state.workers.length)}`);
  figure("running", state.error ? "–" : numbers.format(sum(state.workers, "running")));
  figure("waiting", state.error ? "–" : numbers.format(state.waiting));
  figure("requests", numbers.format(state.last_minute.requests));
  figure("failed", numbers.format(state.last_minute.failed));
  figure("tokens", numbers.format(Math.round(state.last_minute.completion_tokens / 6) / 10));
  fill("workers", state.workers.map(workerRow));
  fill("slots", state.slots.map(slotRow));
  if (state.error) {
    // Unknown is not the same as none.
    for (const hint of live.querySelectorAll("[data-empty]")) hint.hidden = true;
  }
};

poll(live.dataset.url, draw);
