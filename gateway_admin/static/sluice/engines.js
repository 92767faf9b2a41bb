// Fills the page "Engines and queues" from its JSON every two seconds. Texts come from the page, so they are translated.
(() => {
  const PERIOD_MS = 2000;
  const live = document.getElementById("live");
  const words = JSON.parse(document.getElementById("words").textContent);
  const numbers = new Intl.NumberFormat(document.documentElement.lang);

  const show = (id, visible) => {
    document.getElementById(id).hidden = !visible;
  };
  const figure = (name, value) => {
    live.querySelector(`[data-figure="${name}"]`).textContent = value;
  };
  const sum = (rows, field) => rows.reduce((total, row) => total + row[field], 0);
  // UTC as everywhere in the admin and in the logs.
  const time = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")}Z`;

  const bar = (used, total) => {
    const whole = document.createElement("span");
    whole.className = "sluice-bar";
    const part = document.createElement("span");
    const share = total ? Math.min(1, used / total) : 0;
    part.style.width = `${(share * 100).toFixed(1)}%`;
    part.className = share >= 0.9 ? "sluice-full" : "";
    whole.append(part);
    const text = document.createElement("span");
    text.textContent = total ? `${numbers.format(used)} / ${numbers.format(total)}` : "–";
    return [whole, text];
  };

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
    return made;
  };

  const queueRows = (queues) => {
    const models = new Map();
    for (const queue of queues) {
      models.set(queue.model, { ...models.get(queue.model), [queue.qos_class]: numbers.format(queue.waiting) });
    }
    return [...models].map(([model, depths]) => row("queue-row", { model, ...depths }));
  };

  const slotRow = (slot) => {
    const made = row("slot-row", { tenant: slot.tenant }, { slots: bar(slot.running, slot.limit) });
    if (!slot.limit) {
      made.querySelector('[data-bar="slots"]').textContent = `${numbers.format(slot.running)} (${words.no_limit})`;
    }
    return made;
  };

  const draw = (state) => {
    show("valkey-error", Boolean(state.error));
    document.querySelector('#valkey-error [data-field="error"]').textContent = state.error;
    const ready = state.workers.filter((worker) => worker.state === "ready").length;
    figure("gateways", state.error ? "–" : numbers.format(state.gateways.length));
    figure("workers", state.error ? "–" : `${numbers.format(ready)} / ${numbers.format(state.workers.length)}`);
    figure("running", state.error ? "–" : numbers.format(sum(state.workers, "running")));
    figure("waiting", state.error ? "–" : numbers.format(sum(state.queues, "waiting")));
    figure("requests", numbers.format(state.last_minute.requests));
    figure("failed", numbers.format(state.last_minute.failed));
    figure("tokens", numbers.format(Math.round(state.last_minute.completion_tokens / 6) / 10));
    fill("workers", state.workers.map(workerRow));
    fill("queues", queueRows(state.queues));
    fill("slots", state.slots.map(slotRow));
    if (state.error) {
      // Unknown is not the same as none.
      for (const hint of live.querySelectorAll("[data-empty]")) hint.hidden = true;
    }
    live.querySelector('time[data-field="at"]').textContent = time(state.at);
  };

  const refresh = async () => {
    try {
      const answer = await fetch(live.dataset.url, { signal: AbortSignal.timeout(10000) });
      if (answer.redirected) {
        window.location.reload(); // the login has ended
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      draw(await answer.json());
      show("page-error", false);
    } catch {
      show("page-error", true);
    }
    window.setTimeout(refresh, PERIOD_MS);
  };

  refresh();
})();
