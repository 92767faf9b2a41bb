// The page "Your limits and usage". The key lives in this tab alone, and leaves it only in the header of its questions.
import { batchesQuestion, filesQuestion, showBatches, showFiles } from "./account_batches.js";
import { showBudget, showLimits } from "./account_limits.js";
import { words } from "./account_numbers.js";
import { download, question, showUsage } from "./account_usage.js";

const KEPT = "sluice-api-key";
const LIMITS_MS = 5000;
const USAGE_MS = 60000;
const BATCHES_MS = 15000;
const PATIENCE_MS = 10000;
const byId = (id) => document.getElementById(id);

let key = sessionStorage.getItem(KEPT) || "";
let limits = null;
let usage = null;
let signedIn = 0; // counts keys, so that an answer for one that was forgotten is not shown
let asked = 0; // counts questions for usage: only the latest one's answer is shown

class Refused extends Error {
  constructor(reason, detail) {
    super(detail);
    this.reason = reason;
  }
}

// A key that is no key never leaves the page: browsers refuse headers that are not Latin text.
const ask = async (url) => {
  if (!/^[\x21-\x7e]+$/.test(key)) throw new Refused("key_unknown", "");
  let answer;
  try {
    answer = await fetch(url, {
      headers: { authorization: `Bearer ${key}` },
      cache: "no-store",
      credentials: "omit",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const body = await answer.json();
    if (answer.ok) return body;
    throw new Refused(body.error.reason || body.error.code, body.error.message);
  } catch (error) {
    throw error instanceof Refused ? error : new Refused("away", "");
  }
};

const alertIn = (place, error) => {
  place.hidden = error === null;
  if (error === null) return;
  const known = words.errors[error.reason];
  const detail = document.createElement("small");
  detail.textContent = known ? "" : error.message;
  place.replaceChildren(known || words.errors.other, detail);
};

const FINAL = new Set(["key_unknown", "key_revoked", "key_expired", "tenant_disabled", "address_not_allowed", "scope_missing"]);

const showSignIn = () => {
  byId("account").hidden = true;
  if (!byId("sign-in").hidden) return;
  byId("sign-in").hidden = false;
  byId("key").focus();
};

const forget = () => {
  sessionStorage.removeItem(KEPT);
  key = "";
  [limits, usage] = [null, null];
  signedIn += 1;
  asked += 1;
  byId("key").value = "";
  showSignIn();
};

const readLimits = async () => {
  const mine = signedIn;
  try {
    const report = await ask("/v1/limits");
    if (mine !== signedIn) return;
    limits = report;
    sessionStorage.setItem(KEPT, key);
    alertIn(byId("alert"), null);
    byId("sign-in").hidden = true;
    byId("account").hidden = false;
    showLimits(limits);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (mine !== signedIn) return;
    if (FINAL.has(error.reason)) forget();
    else if (limits === null) showSignIn();
    alertIn(byId("alert"), error);
  }
};

const readUsage = async () => {
  const mine = (asked += 1);
  try {
    const report = await ask(question());
    if (mine !== asked) return;
    usage = report;
    alertIn(byId("usage-alert"), null);
    showBudget(usage);
    showUsage(usage);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (mine === asked) alertIn(byId("usage-alert"), error);
  }
};

// Only a key that may ask models may see batches and files.
const readBatches = async () => {
  const mine = signedIn;
  byId("batches").hidden = !limits.scopes.includes("inference");
  if (byId("batches").hidden) return;
  try {
    const [batches, files] = await Promise.all([ask(batchesQuestion), ask(filesQuestion)]);
    if (mine !== signedIn) return;
    alertIn(byId("batches-alert"), null);
    showBatches(batches);
    showFiles(files);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (mine === signedIn) alertIn(byId("batches-alert"), error);
  }
};

const readAll = async () => {
  await readLimits();
  if (limits !== null) await Promise.all([readUsage(), readBatches()]);
};

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  key = byId("key").value.trim();
  signedIn += 1;
  readAll();
});
byId("forget").addEventListener("click", () => {
  forget();
  alertIn(byId("alert"), null);
});
for (const id of ["range", "group"]) byId(id).addEventListener("change", readUsage);
byId("measure").addEventListener("change", () => usage && showUsage(usage));
byId("download").addEventListener("click", () => usage && download(usage, limits.tenant));
new ResizeObserver(() => usage && showUsage(usage)).observe(byId("account"));

// What nobody looks at is not asked for.
window.setInterval(() => key && !document.hidden && (limits ? readLimits() : readAll()), LIMITS_MS);
window.setInterval(() => key && limits && !document.hidden && readUsage(), USAGE_MS);
window.setInterval(() => key && limits && !document.hidden && readBatches(), BATCHES_MS);

if (key) readAll();
else showSignIn();
