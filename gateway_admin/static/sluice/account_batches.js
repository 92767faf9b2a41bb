// The latest batches, and how much the files of the tenant take.
import { bytes, count, say, time, words } from "./account_numbers.js";

const SHOWN = 10;
const FILES = 1000; // as many as the gateway lists at once
const byId = (id) => document.getElementById(id);

export const batchesQuestion = `/v1/batches?limit=${SHOWN}`;
export const filesQuestion = `/v1/files?limit=${FILES}`;

const ENDS = { completed: "completed_at", failed: "failed_at", expired: "expired_at", cancelled: "cancelled_at" };

const cell = (text, detail = "") => {
  const made = document.createElement("td");
  made.textContent = text;
  if (detail) {
    const quiet = document.createElement("small");
    quiet.textContent = detail;
    quiet.className = "quiet";
    made.append(document.createElement("br"), quiet);
  }
  return made;
};

const waitsFor = (reason) => {
  if (!reason) return "";
  if (words.waits[reason]) return words.waits[reason];
  return words.limits[reason] ? say(words.waits_limit, { limit: words.limits[reason] }) : say(words.waits_other, { reason });
};

const detailOf = (batch) => {
  if (batch.errors) return say(words.lines_wrong, { count: count(batch.errors.data.length) });
  return waitsFor(batch.waiting_for);
};

// Before a file is checked nobody knows how many requests it has.
const progress = ({ request_counts: { total, completed, failed } }) =>
  total === 0 ? cell("–") : cell(say(words.of, { used: count(completed + failed), limit: count(total) }), failed > 0 ? say(words.failed, { count: count(failed) }) : "");

const batchRow = (batch) => {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  const [model, ended] = [document.createElement("small"), batch[ENDS[batch.status]]];
  head.scope = "row";
  model.className = "quiet";
  model.textContent = batch.model || batch.endpoint;
  head.append(batch.id, document.createElement("br"), model);
  row.dataset.status = batch.status;
  const ends = ended ? say(words.ended, { time: time(ended) }) : say(words.expires, { time: time(batch.expires_at) });
  row.append(head, cell(words.statuses[batch.status] || batch.status, detailOf(batch)), progress(batch), cell(time(batch.created_at)), cell(ends));
  return row;
};

export const showBatches = ({ data }) => {
  byId("batch-rows").replaceChildren(...data.map(batchRow));
  byId("no-batches").hidden = data.length > 0;
  byId("batch-table").hidden = data.length === 0;
};

export const showFiles = ({ data, has_more }) => {
  const parts = { count: count(data.length), size: bytes(data.reduce((sum, file) => sum + file.bytes, 0)) };
  byId("files").textContent = say(has_more ? words.files_more : words.files, parts);
};
