-- Endings ---------------------------------------------------------------------------------------------------------

-- The hash of what is told on this day, begun if it is missing.
local function made_key(now)
  local key = 'sl:made:' .. string.sub(calendar(now).name, 2)
  if redis.call('HSETNX', key, 'since', now) == 1 then redis.call('PEXPIRE', key, 40 * DAY_MS) end
  return key
end

-- What endings told, by day of the end and model, for the reconciliation: it must be what the usage rows say.
-- u: {prompt, cached, completion}
local function note_billed(item, u, now)
  local key, model = made_key(now), item.model .. '|'
  redis.call('HINCRBY', key, model .. 'requests', 1)
  for index, name in ipairs({'prompt_tokens', 'cached_tokens', 'completion_tokens'}) do
    if u[index] > 0 then redis.call('HINCRBY', key, model .. name, u[index]) end
  end
end

-- Answer tokens that a lost attempt had made, as far as its worker told, and that were never delivered.
local function note_wasted(item, delivered, now)
  local made = tonumber(item.produced or 0)
  local lost = made - math.max(delivered, tonumber(item.wasted_to or 0))
  if lost <= 0 then return end
  redis.call('HINCRBY', made_key(now), item.model .. '|wasted:' .. item.cause, lost)
  item.wasted_to = made
end

-- What counts of a run that was made for somebody else, rounded up: in limits, cost and usage row alike, so that all books agree.
local function part_of(u, percent)
  local part = {}
  for index, tokens in ipairs(u) do part[index] = math.ceil(tokens * percent / 100) end
  return part
end

-- The one end of every admitted request: slots back, unused tokens back, one settlement, nothing left.
-- u: {prompt, cached, completion} of the run
local function close_item(rid, item, outcome, status, code, u, now)
  local cache = item.follows and 'coalesced' or item.cache or ''
  if cache ~= '' then u = part_of(u, tonumber(item.percent or 100)) end
  item.version = version_of(item)
  local cost, price = cost_of(item, u)
  release(rid, item, u, cost, now)
  note_ended(rid, now)
  charge_rest(item, u, now)
  note_billed(item, u, now)
  if item.state == 'lost' then note_wasted(item, u[3], now) end
  close_note(rid, item, outcome, now)
  leave_flight(rid, item, outcome, now)
  -- A lost item counts the attempt that was to come; it was not run again.
  local attempt = tonumber(item.attempt) - (item.state == 'lost' and 1 or 0)
  redis.call('ZREM', 'sl:deadlines', rid)
  redis.call('SREM', 'sl:gwitems:' .. item.gw, rid)
  redis.call('XADD', 'sl:settle', '*', 'rid', rid, 'tenant_id', item.tenant_id, 'key_id', item.key_id,
    'model', item.model, 'version', item.version, 'class', item.class, 'endpoint', item.endpoint,
    'stream', item.stream, 'outcome', outcome, 'status', status, 'code', code, 'prompt', u[1], 'cached', u[2],
    'completion', u[3], 'cost', cost, 'price', price, 'attempt', attempt, 'cause', item.cause or '', 'batch', item.batch or '',
    'cache', cache, 'worker', item.owner or '', 'gateway', item.gw, 't_admit', item.t_admit, 't_claim', item.t_claim or '',
    't_first', item.t_first or '', 't_end', now, 'trace', item.trace or '')
  redis.call('DEL', 'sl:item:' .. rid, 'sl:body:' .. rid)
end

-- A waiting item, or one that follows a waiting one, whose time is up: refused with a reason, never run.
local function expire_item(rid, item, now)
  leave_queue(rid, item)
  tell_gateway(item.gw, {rid, tonumber(item.attempt), -1, 'E', 'expired', 429, ''})
  close_item(rid, item, 'expired', 429, 'queue_deadline', {0, 0, tonumber(item.text_tokens or 0)}, now)
end

-- A running item whose engine is gone. Its gateway knows what was delivered, so it decides how the item goes on.
-- forgive: another item is to blame, so this does not count as one of its retries.
local function lose_item(rid, item, cause, forgive)
  redis.call('SREM', 'sl:held:' .. item.owner, rid)
  local attempt = tonumber(item.attempt) + 1
  local died = cause == 'engine_dead' or cause == 'worker_lost'
  forgive = forgive and item.trial ~= '1'
  local deaths = tonumber(item.deaths or 0) + (died and not forgive and 1 or 0)
  -- A worker that was lost may only have stalled, so that alone is no proof.
  local guilty = died and item.trial == '1' and (cause == 'engine_dead' or deaths > 2)
  redis.call('HSET', 'sl:item:' .. rid, 'state', 'lost', 'attempt', attempt, 'cause', cause,
    'causes', (item.causes and item.causes .. ',' or '') .. cause .. '@' .. item.batch,
    'deaths', deaths,
    'forgiven', tonumber(item.forgiven or 0) + (forgive and 1 or 0), 'guilty', guilty and '1' or '0')
  redis.call('HDEL', 'sl:item:' .. rid, 'trial')
  tell_gateway(item.gw, {rid, attempt, -1, 'L', cause, item.owner, item.batch, tonumber(item.t_claim)})
end

