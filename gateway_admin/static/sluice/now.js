// Fills the page "Now" from its JSON every second. What the small charts show is kept here, for five minutes.
import { meter, numbers, percent, say, words } from "./live.js";
import { fine, hide, known, list, millis, share, svg, watch, write } from "./watch.js";

const PERIOD_MS = 1000;
const KEPT_S = 300;
const WIDTH = 160;
const HEIGHT = 32;
// Longer without a figure, and the line is broken.
const GAP_S = 95;

const live = document.getElementById("live");
const title = document.title;
const points = { requests_per_s: [], tokens_per_s: [], ttft: [], token: [], failed: [], waiting: [] };
let opened = false;

const perSecond = (count) => say(words.per_s, { count: fine(count) });
const shown = { requests_per_s: perSecond, tokens_per_s: perSecond, ttft: millis, token: millis, failed: percent, waiting: numbers.format };

const keep = (name, at, value) => {
  if (value === null || value === undefined) return;
  points[name].push({ at, value });
  while (points[name][0].at < at - KEPT_S) points[name].shift();
};

const path = (found, now, most) => {
  let before = null;
  return found
    .map(({ at, value }) => {
      const step = before === null || at - before > GAP_S ? "M" : "L";
      before = at;
      const x = WIDTH - ((now - at) / KEPT_S) * WIDTH;
      return `${step}${x.toFixed(1)} ${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`;
    })
    .join("");
};

const spark = (name, now) => {
  const place = live.querySelector(`[data-spark="${name}"]`);
  const found = points[name];
  const highest = Math.max(0, ...found.map(({ value }) => value));
  const label = found.length
    ? say(words.last_minutes, {
        name: place.parentElement.querySelector("dt").textContent,
        now: shown[name](found[found.length - 1].value),
        most: shown[name](highest),
      })
    : "";
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  drawn.append(svg("title", {}, label), svg("path", { d: path(found, now, highest || 1), class: "sluice-spark-line" }));
  place.replaceChildren(...(found.length > 1 ? [drawn] : []));
};

const tile = (name, level) => {
  live.querySelector(`[data-tile="${name}"]`).dataset.level = level;
};

const writeFigures = (figures) => {
  const { requests, failed, refused } = figures;
  const [first, token] = [figures.ttft, figures.token];
  const counts = { failed: numbers.format(failed), count: numbers.format(requests), refused: numbers.format(refused) };
  write(live, {
    requests_per_s: perSecond(figures.requests_per_s),
    tokens_per_s: perSecond(figures.tokens_per_s),
    ttft: known(first.p95_ms, millis),
    ttft_note: first.p50_ms === null ? "" : say(words.median, { time: millis(first.p50_ms) }),
    token: known(token.p95_ms, millis),
    token_note: token.p50_ms === null ? "" : say(words.median, { time: millis(token.p50_ms) }),
    failed: requests ? share(failed, requests) : "–",
    failed_note: say(words.of_minute, counts),
    cache: known(figures.cache_share, percent),
    cache_note: [
      figures.cache_share === null ? words.no_lookups : "",
      figures.prefix_share === null ? "" : say(words.prefix, { share: percent(figures.prefix_share) }),
    ]
      .filter(Boolean)
      .join(" · "),
  });
  tile("failed", failed / requests >= 0.05 ? "bad" : failed ? "wait" : "");
  document.getElementById("sampled").textContent = words.sampled;
  hide("sampled", !figures.sampled);
  hide("never", requests > 0);
};

const writeWaiting = (waiting, tolerated) => {
  let late = false;
  for (const row of document.getElementById("classes").children) {
    const found = waiting?.[row.dataset.class];
    const oldest = found?.oldest_ms;
    const limit = tolerated[row.dataset.class];
    const over = known(oldest, (ms) => ms > limit) === true;
    late = late || over;
    row.dataset.level = over ? "full" : "";
    row.querySelector('[data-field="oldest"]').className = over ? "sluice-bad" : "";
    write(row, {
      count: found ? numbers.format(found.count) : "–",
      oldest: oldest === null || oldest === undefined ? "–" : say(words.oldest, { waited: millis(oldest), tolerated: millis(limit) }),
    });
  }
  const total = waiting ? Object.values(waiting).reduce((sum, { count }) => sum + count, 0) : null;
  const oldest = waiting ? Math.max(0, ...Object.values(waiting).map(({ oldest_ms: ms }) => ms || 0)) : 0;
  write(live, {
    waiting: known(total, numbers.format),
    waiting_note: total ? say(words.oldest_wait, { waited: millis(oldest) }) : total === 0 ? words.nothing_waits : "",
  });
  tile("waiting", late ? "wait" : "");
  return total;
};

const fillWorker = (row, worker) => {
  const cap = worker.cap ?? worker.max_num_seqs;
  const isHeld = worker.max_num_seqs > 0 && cap < worker.max_num_seqs;
  const switched = row.querySelector('[data-field="switch"]');
  row.querySelector('[data-field="state"]').dataset.state = worker.state;
  switched.hidden = worker.switch === "open";
  switched.dataset.state = worker.switch;
  write(row, {
    id: worker.id,
    state: words.state[worker.state] || worker.state || "–",
    switch: words.switch[worker.switch] || "",
    running: cap ? say(words.running, { running: numbers.format(worker.running), cap: numbers.format(cap) }) : "–",
    held: isHeld ? say(words.held, { cap: numbers.format(cap), limit: numbers.format(worker.max_num_seqs), why: worker.cap_reason }) : "",
    step: known(worker.step_ms, millis),
  });
  row.querySelector('[data-bar="running"]').replaceChildren(...(cap ? [meter(worker.running, cap, null, false)] : []));
};

const writeEngines = ({ workers, error }) => {
  const down = workers.filter(({ state }) => state !== "ready").map(({ id }) => id);
  const counts = { ready: numbers.format(workers.length - down.length), all: numbers.format(workers.length) };
  write(live, {
    engines: error ? "–" : say(words.engines, counts),
    engines_note: error || !workers.length ? "" : down.length ? say(words.not_ready, { names: down.slice(0, 3).join(", ") }) : words.all_ready,
  });
  tile("engines", !error && (!workers.length || down.length === workers.length) ? "bad" : down.length ? "wait" : "");
  list(document.getElementById("workers"), "worker-row", workers, ({ id }) => id, fillWorker);
  hide("engines-table", workers.length === 0);
  hide("no-worker", Boolean(error) || workers.length > 0);
};

const fillTrouble = (row, { key, level, text }) => {
  row.dataset.level = level;
  const failing = key === "failing";
  const link = row.querySelector("a");
  link.href = failing ? live.dataset.heatUrl : live.dataset.queuesUrl;
  link.hidden = level === "good";
  write(row, { text, see: failing ? words.see.failing : words.see.queues });
};

const writeTroubles = ({ troubles, error, workers }) => {
  const calm = !error && workers.length > 0 && troubles.length === 0;
  const quiet = { key: "quiet", level: "good", text: words.quiet };
  document.title = troubles.length ? `(${troubles.length}) ${title}` : title;
  list(document.getElementById("troubles"), "trouble-row", calm ? [quiet] : troubles, ({ key }) => key, fillTrouble);
};

const show = (state) => {
  const { figures, at } = state;
  for (const minute of state.minutes || []) {
    keep("requests_per_s", minute.at, minute.requests_per_s);
    keep("failed", minute.at, minute.failed);
  }
  opened = true;
  writeTroubles(state);
  writeFigures(figures);
  const waiting = writeWaiting(state.waiting, state.tolerated_ms);
  writeEngines(state);
  const latest = { ...figures, ttft: figures.ttft.p95_ms, token: figures.token.p95_ms, failed: figures.requests ? figures.failed / figures.requests : 0, waiting };
  for (const name of Object.keys(points)) {
    keep(name, at, latest[name]);
    spark(name, at);
  }
  return PERIOD_MS;
};

watch(() => (opened ? live.dataset.url : `${live.dataset.url}?history`), show);
