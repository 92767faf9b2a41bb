-- Check all limits and set aside what the item may use, then put it into the fair ready set: all or nothing. If its answer is
-- kept, it is checked, counted and settled at once; if an equal one is under way, it shares that one's run.
-- ARGV: 1 rid  2 most that may wait in the queue  3 most bytes that may wait there or ''  4 ms it may wait  5 body
--       6 further fields of the item, packed: {name, value, ...} (tenant, tenant_id, key_id, model, class, gw, endpoint, stream, salt,
--       prio, seqs, trace, max_retries, weight, prompt = tokens of the prompt, out = output tokens at most, prefix,
--       limits = packed {{level, code, cap}, ...}, prices = packed {{version's beginning, id, input, cached, output}, ...},
--       res_i, res_o, res_c = what is set aside: prompt tokens, output tokens, cost, idem* = its idempotency key's note,
--       flight, percent: see flights.lua)
--       7 the answer that it seeks, packed, '' for none: {key, '1' if a kept one will do, ms that it may be old, '1' if its gateway has
--       it itself, and then: prompt, cached, completion tokens of the run that made it, version of the model}
-- Returns {'ok', ring, tightest limits, unknown periods, tokens that the tenant has spent in this month, cost in billionths,
--          rid of the item whose run it shares or ''},
--         {'hit', tightest limits, tokens that the tenant has spent in this month, cost, answer or '' if its gateway has it},
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

-- Who shares a run waits in no queue.
local function why_closed(shares)
  if switch_of('queue:' .. queue) == 'draining' then return 'draining' end
  if shares then return nil end
  if redis.call('ZCARD', 'sl:ready:' .. queue) >= max_waiting then return 'queue_full' end
  if max_bytes and tonumber(redis.call('GET', 'sl:bytes:' .. queue) or 0) + #body > max_bytes then return 'queue_bytes' end
end

local function closed(reason, limits)
  local oldest = redis.call('ZRANGE', 'sl:ready:' .. queue, 0, 0, 'WITHSCORES')[2]
  return {'no', reason, limits, reason == 'queue_bytes' and max_bytes or max_waiting, redis.call('ZCARD', 'sl:ready:' .. queue),
    oldest and now - tonumber(oldest) or 0, redis.call('LRANGE', 'sl:waits:' .. queue, 0, LATEST_WAITS - 1)}
end

-- A request that its tenant's budget of the month leaves no room for: settlement looks whether the budget is used up.
local function note_exhausted(quota, number)
  local level, code = unpack(quota.limits[number], 1, 2)
  if level == 't' and (code == 'tM' or code == 'cM') then
    local key = 'sl:exhausted:' .. quota.periods[2].name
    redis.call('SADD', key, item.tenant_id .. ':' .. code)
    redis.call('EXPIRE', key, 40 * 86400)
  end
end

local function over_limit(quota, barred, seen)
  note_exhausted(quota, barred[1])
  local left = string.format('%.0f', math.max(0, math.floor(barred[2])))
  return {'no', 'limit', tightest(quota, seen, false, now), barred[1], left, barred[3] == NEVER and -1 or barred[3]}
end

-- Kept answers ----------------------------------------------------------------------------------------------------

-- The answer that it seeks, if it is here or its gateway has it.
local function find_answer(sought)
  local key, reads, max_age, held = unpack(sought, 1, 4)
  if held ~= '1' then return reads == '1' and read_answer(key, tonumber(max_age), now) or nil end
  return {packed = '', u = {tonumber(sought[5]), tonumber(sought[6]), tonumber(sought[7])}, version = sought[8]}
end

-- Count and settle one that gets this answer. It is over in the same moment: nothing is set aside, and it takes no turn.
local function give(quota, key, answer)
  for _, rate in pairs(quota.rate) do draw(rate, now) end
  item.holds_nothing, item.flight, item.attempt, item.t_admit = true, nil, 0, now
  item.day, item.month = quota.periods[1].name, quota.periods[2].name
  close_item(rid, item, 'completed', 200, '', answer.u, now)
  touch_answer(key, now)
end

-- known: it has ended already; it was given its answer, but its gateway did not hear of it.
local function hit(quota, key, answer, known)
  local part = part_of(answer.u, tonumber(item.percent))
  item.cache, item.version = 'hit', answer.version
  local cost = cost_of(item, part)
  over_at_once(quota, part, cost)
  local barred, seen = check(quota, now)
  local spent, more = quota.month.t.spent, known and {t = 0, c = 0} or quota.needs
  if not known then
    if barred then return over_limit(quota, barred, seen) end
    give(quota, key, answer)
  end
  return {'hit', tightest(quota, seen, not known, now), string.format('%.0f', spent.t + more.t),
    string.format('%.0f', spent.c + more.c), answer.packed}
end

-- Admission -------------------------------------------------------------------------------------------------------

-- Put it where it waits: into the queue, or behind the leader whose run it shares.
local function put(quota, leader)
  reserve(quota, item, rid, now)
  item.order, item.size = redis.call('INCR', 'sl:order'), #body
  redis.call('HSET', 'sl:item:' .. rid, 'state', 'ready', 'attempt', 0, 't_admit', now, 't_ready', now, 'wait_ms', wait_ms,
    'deadline', now + wait_ms, 'order', item.order, 'size', item.size, 'day', quota.periods[1].name,
    'month', quota.periods[2].name, unpack(fields))
  redis.call('SET', 'sl:body:' .. rid, body)
  redis.call('ZADD', 'sl:deadlines', now + wait_ms, rid)
  redis.call('SADD', 'sl:gwitems:' .. item.gw, rid)
  redis.call('SADD', 'sl:gateways', item.gw) -- a gateway that was taken for dead meanwhile is swept again
  if leader then follow(rid, item, leader) else enter_queue(rid, item, now); lead(rid, item) end
  open_note(rid, item)
end

local repeated = read_note(rid, item, now)
if repeated then return repeated end

local quota = open_quota(item, now)
local unknown, blocks = unknown_of(quota)

-- Sent twice because the first answer was lost on the way: it is admitted already, or has even ended.
local lives = redis.call('EXISTS', 'sl:item:' .. rid) == 1
local again = lives or has_ended(rid, MINUTE_MS, now)
if blocks and not again then return {'unknown', unknown} end

local sought = ARGV[7] ~= '' and cmsgpack.unpack(ARGV[7])
local answer = sought and not lives and find_answer(sought)
if answer then return hit(quota, sought[1], answer, again) end

local barred, seen = check(quota, now)
local follows
if lives then follows = redis.call('HGET', 'sl:item:' .. rid, 'follows')
elseif not again then
  if barred then return over_limit(quota, barred, seen) end
  local leader = leader_of(rid, item)
  local reason = why_closed(leader)
  if reason then return closed(reason, tightest(quota, seen, false, now)) end
  put(quota, leader)
  follows = leader and leader.rid
end

local month = quota.month.t
return {'ok', follows and 2 or must_ring(item.model, item.class), tightest(quota, seen, not again, now), unknown,
  string.format('%.0f', month.spent.t), string.format('%.0f', month.spent.c), follows or ''}
