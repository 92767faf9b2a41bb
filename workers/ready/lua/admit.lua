-- Check all limits and set aside what the item may use, then put it into the fair ready set: all or nothing.
-- ARGV: 1 rid  2 most that may wait in the queue  3 most bytes that may wait there or ''  4 ms it may wait  5 body
--       6 further fields of the item, packed: {name, value, ...} (tenant, tenant_id, key_id, model, class, gw, endpoint, stream, salt,
--       prio, seqs, trace, max_retries, weight, prompt = tokens of the prompt, out = output tokens at most, prefix,
--       limits = packed {{level, code, cap}, ...}, prices = packed {{version's beginning, id, input, cached, output}, ...},
--       res_i, res_o, res_c = what is set aside: prompt tokens, output tokens, cost, idem* = its idempotency key's note)
-- Returns {'ok', ring, tightest limits, unknown periods, tokens that the tenant has spent in this month, cost in billionths},
--         {'unknown', unknown periods}: they have to be seeded first,
--         {'no', 'limit', tightest limits, number of the limit, left, ms until it may pass or -1 for never}, or
--         {'no', reason, tightest limits, most that may wait, waiting, ms that the oldest has waited, {latest waits in ms}}, or
--         {'again', ...}, see read_note(): its idempotency key was used before.
-- Tightest limits: see tightest(); unknown periods: see unknown_of().
local rid, max_waiting, max_bytes, wait_ms, body = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local fields, LATEST_WAITS = cmsgpack.unpack(ARGV[6]), 50
local now = now_ms()

local item = {}
for i = 1, #fields, 2 do item[fields[i]] = fields[i + 1] end
local queue = queue_of(item)

local function why_closed()
  if switch_of('queue:' .. queue) == 'draining' then return 'draining' end
  if redis.call('ZCARD', 'sl:ready:' .. queue) >= max_waiting then return 'queue_full' end
  if max_bytes and tonumber(redis.call('GET', 'sl:bytes:' .. queue) or 0) + #body > max_bytes then return 'queue_bytes' end
end

local function closed(reason, limits)
  local oldest = redis.call('ZRANGE', 'sl:ready:' .. queue, 0, 0, 'WITHSCORES')[2]
  return {'no', reason, limits, reason == 'queue_bytes' and max_bytes or max_waiting, redis.call('ZCARD', 'sl:ready:' .. queue),
    oldest and now - tonumber(oldest) or 0, redis.call('LRANGE', 'sl:waits:' .. queue, 0, LATEST_WAITS - 1)}
end

-- A request that its tenant's budget of the month leaves no room for: settlement looks whether the budget is used up.
local function note_exhausted(quota, item, number)
  local level, code = unpack(quota.limits[number], 1, 2)
  if level == 't' and (code == 'tM' or code == 'cM') then
    local key = 'sl:exhausted:' .. quota.periods[2].name
    redis.call('SADD', key, item.tenant_id .. ':' .. code)
    redis.call('EXPIRE', key, 40 * 86400)
  end
end

local repeated = read_note(rid, item, now)
if repeated then return repeated end

local quota = open_quota(item, now)
local unknown, blocks = unknown_of(quota)
local barred, seen = check(quota, now)

-- Sent twice because the first answer was lost on the way: it is admitted already, or has even ended.
local again = redis.call('EXISTS', 'sl:item:' .. rid) == 1 or has_ended(rid, MINUTE_MS, now)

if not again then
  if blocks then return {'unknown', unknown} end
  if barred then
    note_exhausted(quota, item, barred[1])
    local left = string.format('%.0f', math.max(0, math.floor(barred[2])))
    return {'no', 'limit', tightest(quota, seen, false, now), barred[1], left, barred[3] == NEVER and -1 or barred[3]}
  end
  local reason = why_closed()
  if reason then return closed(reason, tightest(quota, seen, false, now)) end

  reserve(quota, item, rid, now)
  item.order, item.size = redis.call('INCR', 'sl:order'), #body
  redis.call('HSET', 'sl:item:' .. rid, 'state', 'ready', 'attempt', 0, 't_admit', now, 't_ready', now, 'wait_ms', wait_ms,
    'deadline', now + wait_ms, 'order', item.order, 'size', item.size, 'day', quota.periods[1].name,
    'month', quota.periods[2].name, unpack(fields))
  redis.call('SET', 'sl:body:' .. rid, body)
  redis.call('ZADD', 'sl:deadlines', now + wait_ms, rid)
  redis.call('SADD', 'sl:gwitems:' .. item.gw, rid)
  redis.call('SADD', 'sl:gateways', item.gw) -- a gateway that was taken for dead meanwhile is swept again
  enter_queue(rid, item, now)
  open_note(rid, item)
end

local month = quota.month.t
return {'ok', must_ring(item.model, item.class), tightest(quota, seen, not again, now), unknown,
  string.format('%.0f', month.spent.t), string.format('%.0f', month.spent.c)}
