-- Requests that carry an idempotency key run once while its note lives. Before lib.lua in every script.
--
--   sl:idem:<tenant id>:<digest>  hash    the note: rid, state (running, done), body (its fingerprint), keeps, at (ms of the end)
--   sl:kept:<rid>                 string  the answer, packed by the gateway; only where the plan lets it be kept
--
-- An item with a key has the fields idem (<tenant id>:<digest>), idem_body, idem_ms (for how long the note lives once it
-- is done) and idem_keeps ('1': its answer is kept). A running note has no end of its own: it goes with its item.

-- Its gateway writes the answer down after its client has it; until then who asks again is told to wait, not to give up.
local ANSWER_DUE_MS = 5000

-- What the note says to a request that carries a key: nil to go on, else {'again', what, rid of the first, answer or ''}
-- with what = 'other_body', 'running', 'done' (here is the answer) or 'used' (it is not kept).
local function read_note(rid, item, now)
  if not item.idem then return nil end
  local note = redis.call('HMGET', 'sl:idem:' .. item.idem, 'rid', 'state', 'body', 'keeps', 'at')
  local first, is_running = note[1], note[2] == 'running'
  if not first or first == rid or (is_running and redis.call('EXISTS', 'sl:item:' .. first) == 0) then return nil end
  if note[3] ~= item.idem_body then return {'again', 'other_body', first, ''} end
  if is_running then return {'again', 'running', first, ''} end
  local answer = redis.call('GET', 'sl:kept:' .. first)
  if answer then return {'again', 'done', first, answer} end
  local is_due = note[4] == '1' and now - tonumber(note[5]) < ANSWER_DUE_MS
  return {'again', is_due and 'running' or 'used', first, ''}
end

-- With the item itself, in the same script.
local function open_note(rid, item)
  if not item.idem then return end
  local name = 'sl:idem:' .. item.idem
  redis.call('DEL', name)
  redis.call('HSET', name, 'rid', rid, 'state', 'running', 'body', item.idem_body)
end

-- With the end of the item, whatever ends it: only an answer in full uses the key up.
local function close_note(rid, item, outcome, now)
  if not item.idem then return end
  local name = 'sl:idem:' .. item.idem
  local note = redis.call('HMGET', name, 'rid', 'state')
  if note[1] and (note[1] ~= rid or note[2] == 'done') then return end
  if outcome ~= 'completed' then redis.call('DEL', name); return end
  redis.call('HSET', name, 'rid', rid, 'state', 'done', 'body', item.idem_body, 'keeps', item.idem_keeps, 'at', now)
  redis.call('PEXPIRE', name, item.idem_ms)
end
