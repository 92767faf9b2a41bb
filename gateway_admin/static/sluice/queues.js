// Fills the page "Queues" from its JSON every two seconds. What stands is changed in place: whoever is on a button with
// the keyboard stays there.
import { duration, meter, numbers, percent, poll, say, time, words } from "./live.js";

const MIB = 2 ** 20;
const live = document.getElementById("live");
const title = document.title;

const write = (root, fields) => {
  for (const [name, value] of Object.entries(fields)) {
    const element = root.querySelector(`[data-field="${name}"]`);
    if (element.textContent !== value) element.textContent = value;
  }
};

const draw = (root, bars) => {
  for (const [name, made] of Object.entries(bars)) {
    root.querySelector(`[data-bar="${name}"]`).replaceChildren(...(made ? [made] : []));
  }
};

const badge = (root, name, state, text) => {
  const element = root.querySelector(`[data-field="${name}"]`);
  element.dataset.state = state;
  element.textContent = text;
  element.hidden = !text;
};

// One child for each item, in this order; a child stays as long as its key does.
const list = (parent, template, items, key, fill) => {
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
  }
  const hint = (parent.closest("section") || live).querySelector(`[data-empty="${parent.dataset.rows || parent.id}"]`);
  if (hint) hint.hidden = after.length > 0;
};

const known = (value, show) => (value === null || value === undefined ? "–" : show(value));

const buttons = (root, kind, target, label, state) => {
  const result = { pause: "paused", drain: "draining", open: "open" };
  for (const link of root.querySelectorAll("[data-action]")) {
    const { action } = link.dataset;
    link.href = `${live.dataset.switchUrl}?${new URLSearchParams({ kind, target, action })}`;
    link.hidden = result[action] === state;
    link.setAttribute("aria-label", `${link.textContent}: ${label}`);
  }
};

const fillShare = (row, share) => {
  const notes = [
    share.weight === undefined ? "" : say(words.weight, { weight: numbers.format(share.weight) }),
    share.waiting ? say(words.waiting, { count: numbers.format(share.waiting) }) : "",
  ];
  write(row, { tenant: share.tenant, share: percent(share.share), more: notes.filter(Boolean).join(" · ") });
  draw(row, { share: meter(share.share, 1, null, false) });
};

const sharesOf = (queue, weights) => {
  const { others } = queue;
  const shares = queue.shares.map((share) => ({ ...share, key: `t:${share.tenant}`, weight: weights[share.tenant] }));
  const more = others.tenants || others.waiting;
  return more ? [...shares, { ...others, key: "others", tenant: say(words.others, { count: numbers.format(others.tenants) }) }] : shares;
};

const fillQueue = (card, queue, state) => {
  const limits = state.limits[queue.qos_class];
  const { waits, window: last } = queue;
  const name = words.classes[queue.qos_class];
  const target = `${queue.model}:${queue.qos_class}`;
  const by = state.switched_by[`queue:${target}`] || "";
  const oldest = queue.oldest_wait_ms;
  card.dataset.queue = target;
  write(card, {
    name,
    by,
    waiting: numbers.format(queue.waiting),
    room: numbers.format(queue.room),
    oldest: known(oldest, (ms) => say(words.oldest, { waited: duration(ms), deadline: duration(limits.deadline_ms) })),
    ages: known(limits.ageing_ms, (ms) => say(words.ages, { ageing: duration(ms) })).replace("–", ""),
    p50: known(waits, ({ p50_ms: ms }) => duration(ms)),
    p95: known(waits, ({ p95_ms: ms }) => duration(ms)),
    tolerates: say(words.tolerates, { tolerated: duration(limits.tolerated_ms) }),
    window: known(last, ({ capacity, last_closed_by: cause, wait_ms: ms }) =>
      say(words.window, { capacity: numbers.format(capacity), cause: words.closed_by[cause] || cause, waited: duration(ms) }),
    ),
    bytes: `${numbers.format(Math.ceil((queue.waiting_bytes / MIB) * 10) / 10)} / ${numbers.format((limits.max_waiting_bytes || 0) / MIB)} MiB`,
  });
  badge(card, "state", queue.state, words.switch[queue.state]);
  badge(card, "over", "failed", waits && waits.p95_ms > limits.tolerated_ms ? words.over : "");
  card.querySelector('[data-field="by"]').hidden = !by;
  card.querySelector('[data-part="bytes"]').hidden = limits.max_waiting_bytes === null;
  draw(card, {
    oldest: oldest === null ? null : meter(oldest, limits.deadline_ms, limits.ageing_ms),
    bytes: meter(queue.waiting_bytes, limits.max_waiting_bytes),
  });
  list(card.querySelector('[data-rows="shares"]'), "share-row", sharesOf(queue, state.weights), ({ key }) => key, fillShare);
  buttons(card, "queue", target, `${name} · ${queue.model}`, queue.state);
};

const isCapped = (worker) => worker.cap !== null && worker.cap < worker.max_num_seqs;

const sequences = (worker) =>
  say(isCapped(worker) ? words.capped : words.sequences, {
    running: numbers.format(worker.running),
    cap: numbers.format(worker.cap),
    limit: numbers.format(worker.max_num_seqs),
  });

const fillWorker = (row, worker) => {
  const serves = worker.classes.map((name) => name.toUpperCase()).join(" ");
  const reserve = worker.reserve_p0 ? say(words.reserve, { count: numbers.format(worker.reserve_p0) }) : "";
  const drained = worker.switch === "draining" && !worker.running;
  row.dataset.worker = worker.id;
  write(row, {
    id: worker.id,
    serves: [serves, reserve].filter(Boolean).join(" · "),
    reason: worker.reason,
    sequences: worker.max_num_seqs ? sequences(worker) : "–",
    cap_reason: isCapped(worker) ? worker.cap_reason : "",
    tokens: worker.kv_tokens ? `${known(worker.free_kv_tokens, numbers.format)} / ${numbers.format(worker.kv_tokens)}` : "–",
    step: known(worker.step_ms, duration),
    hits: known(worker.prefix_hit_rate, percent),
    preemptions: known(worker.preemptions, numbers.format),
    padding: known(worker.padding_waste, percent),
  });
  badge(row, "state", worker.state, words.state[worker.state] || worker.state || "–");
  badge(row, "switch", worker.switch, drained ? words.drained : worker.switch === "open" ? "" : words.switch[worker.switch]);
  draw(row, {
    sequences: worker.max_num_seqs ? meter(worker.running, worker.max_num_seqs, worker.cap) : null,
    tokens: worker.kv_tokens ? meter(worker.kv_tokens - (worker.free_kv_tokens || 0), worker.kv_tokens) : null,
  });
  buttons(row, "worker", worker.id, worker.id, worker.switch);
};

const fillModel = (card, model, state) => {
  write(card, { name: model.name, on_trial: numbers.format(model.on_trial) });
  list(card.querySelector('[data-rows="queues"]'), "queue-card", model.queues, ({ qos_class: name }) => name, (child, queue) => fillQueue(child, queue, state));
  const workers = state.workers.filter((worker) => worker.model === model.name);
  list(card.querySelector('[data-rows="workers"]'), "worker-row", workers, ({ id }) => id, fillWorker);
  const pads = workers.some((worker) => worker.padding_waste > 0);
  for (const cell of card.querySelectorAll('[data-column="padding"]')) cell.hidden = !pads;
};

const fillTrouble = (row, trouble) => {
  const [kind, target] = trouble.target || ["", ""];
  row.dataset.level = trouble.level;
  write(row, { text: trouble.text });
  buttons(row, kind, target, target, trouble.target ? "" : "open");
};

const fillAction = (row, action) => {
  const { id: _id, at, ...texts } = action;
  write(row, { at: time(at), ...texts });
};

const show = (state) => {
  const quiet = { key: "quiet", level: "good", text: words.quiet, target: null };
  const calm = !state.error && state.models.length && !state.troubles.length;
  document.title = state.troubles.length ? `(${state.troubles.length}) ${title}` : title;
  list(document.getElementById("troubles"), "trouble-row", calm ? [quiet] : state.troubles, ({ key }) => key, fillTrouble);
  list(document.getElementById("models"), "model-card", state.models, ({ name }) => name, (card, model) => fillModel(card, model, state));
  list(document.getElementById("actions"), "action-row", state.actions, ({ id }) => id, fillAction);
  document.getElementById("actions-table").hidden = state.actions.length === 0;
  // Unknown is not the same as none.
  if (state.error) live.querySelector('[data-empty="models"]').hidden = true;
};

poll(live.dataset.url, show);
