// What the live pages share: asking every two seconds, and showing numbers. Texts come from the page, so they are translated.
const PERIOD_MS = 2000;
const PATIENCE_MS = 10000;

export const words = JSON.parse(document.getElementById("words")?.textContent || "{}");
export const numbers = new Intl.NumberFormat(document.documentElement.lang);

const short = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });

// UTC as everywhere in the admin and in the logs.
export const time = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")}Z`;

export const duration = (ms) => {
  if (ms < 1000) return words.ms.replace("{}", numbers.format(Math.round(ms)));
  if (ms < 60000) return words.s.replace("{}", short.format(ms / 1000));
  return words.min.replace("{}", short.format(ms / 60000));
};

export const percent = (share) => `${short.format(share * 100)} %`;

export const say = (text, parts) => text.replace(/{(\w+)}/g, (_whole, name) => parts[name]);

// A bar of `used` in `total`, in another colour where that is nearly all; `mark`, where given, is a line at that value.
export const meter = (used, total, mark = null, warns = true) => {
  const whole = document.createElement("span");
  whole.className = "sluice-bar";
  const part = document.createElement("span");
  const share = total ? Math.min(1, used / total) : 0;
  part.style.width = `${(share * 100).toFixed(1)}%`;
  part.className = warns && share >= 0.9 ? "sluice-full" : "";
  whole.append(part);
  if (mark !== null && total) {
    const line = document.createElement("i");
    line.style.left = `${Math.min(100, (mark / total) * 100).toFixed(1)}%`;
    whole.append(line);
  }
  return whole;
};

export const bar = (used, total) => {
  const text = document.createElement("span");
  text.textContent = total ? `${numbers.format(used)} / ${numbers.format(total)}` : "–";
  return [meter(used, total), text];
};

const show = (id, visible) => {
  document.getElementById(id).hidden = !visible;
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

export const poll = async (url, draw) => {
  const state = await ask(url);
  window.setTimeout(() => poll(url, draw), PERIOD_MS);
  show("page-error", state === null);
  if (state === null) return;
  show("valkey-error", Boolean(state.error));
  document.querySelector('#valkey-error [data-field="error"]').textContent = state.error;
  document.getElementById("refreshed").textContent = time(state.at);
  draw(state);
};
