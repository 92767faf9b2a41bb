-- Take the next items in fair order, as many as the engine has room for, under the worker's lease.
-- ARGV: 1 wid  2 model  3 batch id  4 '1' if the engine is idle  5 '1' if it may take a suspect
--       6 KV tokens free, '' where there is no KV cache  7 prompt tokens that it may begin with now  8 the same when none is begun
--       9 affinity: weighted tokens that a match may overtake, '' for off  10 sequences that two workers may differ by for it
--       11 prefixes that its KV cache holds at most
--       12.. for each class that it serves, most urgent first: class, sequences free for it, sequences free once it is aged,
--       ms after which it is aged, ms for which an item is left to the worker that has its prefix
-- Returns {'dead'} or {'ok', {rid, body, item as flat list, rid, ...}, still waiting, {other worker with room, ...}}.
local wid, model, batch = ARGV[1], ARGV[2], ARGV[3]
local idle, may_try = ARGV[4] == '1', ARGV[5] == '1'
local kv_left, prefill_left, prefill_full = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local slack, balance, served_max = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local TENANTS, LOOK, MAX_PASSED, MAX_OTHERS = 4, 32, 16, 8
local now = now_ms()
if redis.call('SISMEMBER', 'sl:workers', wid) == 0 then return {'dead'} end
local version = redis.call('HGET', 'sl:worker:' .. wid, 'version') or ''
local off = switch_of('worker:' .. wid) -- then it takes nothing, but a ticket that reached it is passed on

local classes, class_of = {}, {}
for i = 12, #ARGV, 5 do
  local queue = model .. ':' .. ARGV[i]
  redis.call('DEL', 'sl:rung:' .. queue)
  local class = {queue = queue, seats = off and 0 or tonumber(ARGV[i + 1]), aged_seats = off and 0 or tonumber(ARGV[i + 2]),
    ageing_ms = tonumber(ARGV[i + 3]), leave_ms = tonumber(ARGV[i + 4]), urgent = ARGV[i] == 'p0',
    paused = switch_of('queue:' .. queue) == 'paused'}
  class_of[ARGV[i]] = class
  classes[#classes + 1] = class
end
local taken, homes, blocked_from = {}, {}, #classes + 1
local count = tonumber(redis.call('GET', 'sl:taken:' .. model) or 0)

-- Affinity --------------------------------------------------------------------------------------------------------

-- How many of an item's prefix hashes a worker has served: each includes all before it, so halving finds the last.
local function depth_on(worker, prefix)
  local served, low, high = 'sl:served:' .. worker, 0, math.floor(#prefix / 8)
  local function has(number) return redis.call('ZSCORE', served, string.sub(prefix, number * 8 - 7, number * 8)) end
  if high == 0 or not has(1) then return 0 end
  low = 1
  while low < high do
    local middle = math.floor((low + high + 1) / 2)
    if has(middle) then low = middle else high = middle - 1 end
  end
  return low
end

local function tokens_of(depth)
  return math.min(depth, PREFIX_FINE) * PREFIX_TOKENS + math.max(0, depth - PREFIX_FINE) * PREFIX_COARSE_TOKENS
end

-- Longer prefixes are forgotten before shorter ones, as caches do it.
local function note_served(prefix)
  if not prefix or prefix == '' then return end
  local members, count = {}, #prefix / 8
  for i = 1, count do
    members[#members + 1] = tostring(now + (count - i) / 1024)
    members[#members + 1] = string.sub(prefix, i * 8 - 7, i * 8)
  end
  local key = 'sl:served:' .. wid
  redis.call('ZADD', key, unpack(members))
  redis.call('ZREMRANGEBYRANK', key, 0, -served_max - 1)
  redis.call('PEXPIRE', key, 3600000)
end

-- The other live worker that has served most of a prefix, how much, and how much room it has.
local function best_elsewhere(class, prefix)
  local best, best_depth, best_room = nil, 0, 0
  for i = 1, math.min(#class.rooms, 2 * MAX_OTHERS), 2 do
    local worker = class.rooms[i]
    local depth = worker ~= wid and depth_on(worker, prefix) or 0
    if depth > best_depth then best, best_depth, best_room = worker, depth, tonumber(class.rooms[i + 1]) end
  end
  return best, best_depth, best_room
end

-- The other worker with the most room.
local function emptiest(class)
  local best, most = nil, 0
  for i = 1, #class.rooms, 2 do
    if class.rooms[i] ~= wid and tonumber(class.rooms[i + 1]) > most then best, most = class.rooms[i], tonumber(class.rooms[i + 1]) end
  end
  return best, most
end

-- The worker that an item is left to: the one that knows its prefix much better, has room and is not much busier; or one
-- that is much less busy, if nothing is gained here.
local function left_to(class, near)
  if now - near.t_ready >= class.leave_ms then return nil end
  if near.home and near.room > 0 and class.seats - near.room <= balance and near.there > 2 * near.here then
    return near.home
  end
  local other, room = emptiest(class)
  if near.here <= near.there and room - class.seats > balance then return other end
end

-- Choosing --------------------------------------------------------------------------------------------------------

-- The item if it may run now; what has vanished or waited too long is put away on the spot.
local function living(rid, queue, tenant)
  local item = load_item(rid)
  if not item then
    redis.call('ZREM', 'sl:ready:' .. queue, rid)
    if tenant then
      local line = 'sl:line:' .. queue .. ':' .. tenant
      redis.call('ZREM', line, rid)
      if redis.call('ZCARD', line) == 0 then leave_turn(queue, tenant) end
    end
    return nil
  end
  if tonumber(item.deadline) < now then expire_item(rid, item, now); return nil end
  return item
end

local function head_of(class)
  while true do
    local tenant = redis.call('ZRANGE', 'sl:turn:' .. class.queue, 0, 0)[1]
    if not tenant then return nil end
    local rid = redis.call('ZRANGE', 'sl:line:' .. class.queue .. ':' .. tenant, 0, 0)[1]
    if not rid then leave_turn(class.queue, tenant) else
      local item = living(rid, class.queue, tenant)
      if item then return rid, item end
    end
  end
end

-- Items near the head of the fair order: of the tenants within the slack the first few each, LOOK of them together.
local function near_head(class)
  local turn = redis.call('ZRANGE', 'sl:turn:' .. class.queue, 0, TENANTS - 1, 'WITHSCORES')
  local within, found = {}, {}
  for i = 1, #turn, 2 do
    if tonumber(turn[i + 1]) <= tonumber(turn[2]) + slack then within[#within + 1] = turn[i] end
  end
  local each = math.floor(LOOK / #within)
  for _, tenant in ipairs(within) do
    for _, rid in ipairs(redis.call('ZRANGE', 'sl:line:' .. class.queue .. ':' .. tenant, 0, each - 1)) do
      found[#found + 1] = {rid = rid, tenant = tenant}
    end
  end
  return found
end

-- Where the prefix of an item near the head is known: here, and best elsewhere.
local function locate(class, near)
  local prefix, t_ready = unpack(redis.call('HMGET', 'sl:item:' .. near.rid, 'prefix', 't_ready'))
  if not t_ready then return false end
  near.t_ready, near.here, near.there = tonumber(t_ready), depth_on(wid, prefix), 0
  if prefix ~= '' then near.home, near.there, near.room = best_elsewhere(class, prefix) end
  return true
end

local next_of
-- The item near the head that gains most from running here and not elsewhere; the head itself once it was passed over
-- too often.
function next_of(class)
  local head, head_item = head_of(class)
  if not head or not slack or class.urgent or redis.call('EXISTS', 'sl:prefixed:' .. class.queue) == 0 then
    return head, head_item, 0
  end
  if tonumber(head_item.passed or 0) >= MAX_PASSED then return head, head_item, depth_on(wid, head_item.prefix) end
  class.rooms = redis.call('HGETALL', 'sl:room:' .. class.queue)
  local best
  for _, near in ipairs(near_head(class)) do
    if locate(class, near) and (not best or near.here - near.there > best.here - best.there) then best = near end
  end
  if not best then return head, head_item, 0 end
  local other = left_to(class, best)
  if other then homes[#homes + 1] = other; return nil end
  if best.rid == head then return head, head_item, best.here end
  local item = living(best.rid, class.queue, best.tenant)
  if not item then return next_of(class) end
  redis.call('HINCRBY', 'sl:item:' .. head, 'passed', 1)
  return best.rid, item, best.here
end

-- The next item of the class whose oldest is most overdue, if it is its turn; in fair order, so that no tenant's old
-- backlog takes all turns.
local function aged()
  if count % AGED_EVERY ~= AGED_EVERY - 1 then return nil end
  local worst, late
  for _, class in ipairs(classes) do
    local oldest = redis.call('ZRANGE', 'sl:ready:' .. class.queue, 0, 0, 'WITHSCORES')
    local over = oldest[2] and now - tonumber(oldest[2]) - class.ageing_ms or -1
    if over > 0 and not class.urgent and not class.paused and class.aged_seats > 0 and over > (late or 0) then
      worst, late = class, over
    end
  end
  if not worst then return nil end
  local rid, item = head_of(worst)
  if item then return rid, item, worst end
end

local function need_of(item)
  local expected = tonumber(redis.call('HGET', 'sl:expect:' .. model, item.class) or EXPECTED_TOKENS)
  return tonumber(item.prompt) + math.min(tonumber(item.out), math.ceil(expected) * tonumber(item.seqs))
end

-- One request of many sequences or tokens waits for room for all of them, unless the engine is idle anyway.
local function fits(item, seats, need, prefill, urgent)
  if idle and #taken == 0 then return true end
  return tonumber(item.seqs) <= seats and (not kv_left or need <= kv_left)
    and (urgent or prefill <= prefill_left or prefill_left >= prefill_full)
end

-- Taking ----------------------------------------------------------------------------------------------------------

local function take(rid, item, need, prefill, out_of_turn)
  local queue = queue_of(item)
  local clock = tonumber(redis.call('GET', 'sl:clock:' .. queue) or 0)
  redis.call('SET', 'sl:clock:' .. queue, tostring(math.max(clock, floor_of(queue))))
  leave_queue(rid, item)
  redis.call('ZREM', 'sl:deadlines', rid)
  redis.call('SADD', 'sl:held:' .. wid, rid)
  redis.call('HSET', 'sl:item:' .. rid, 'state', 'leased', 'owner', wid, 'batch', batch, 'seq', #taken / 3, 't_claim', now,
    'need', need, 'charged', '1', 'version', version)
  if item.charged ~= '1' then charge(item, COST_PROMPT * tonumber(item.prompt), now) end
  note_served(item.prefix)
  redis.call('LPUSH', 'sl:waits:' .. queue, now - tonumber(item.t_ready))
  for _, class in ipairs(classes) do
    class.seats = class.seats - tonumber(item.seqs)
    class.aged_seats = class.aged_seats - tonumber(item.seqs)
  end
  kv_left = kv_left and kv_left - need
  prefill_left = prefill_left - prefill
  if not out_of_turn then count = count + 1 end
  taken[#taken + 1] = rid
  taken[#taken + 1] = redis.call('GET', 'sl:body:' .. rid)
  taken[#taken + 1] = redis.call('HGETALL', 'sl:item:' .. rid)
end

-- A suspect runs beside others that are not, one at a time, so that a second death has one name.
local function take_suspect()
  for _, rid in ipairs(redis.call('ZRANGE', 'sl:trial:' .. model, 0, 7)) do
    local item = load_item(rid)
    local class = item and class_of[item.class]
    if not item then redis.call('ZREM', 'sl:trial:' .. model, rid)
    elseif tonumber(item.deadline) < now then expire_item(rid, item, now)
    elseif class and class.aged_seats > 0 and fits(item, class.aged_seats, need_of(item), 0, true) then
      redis.call('HSET', 'sl:item:' .. rid, 'trial', '1')
      take(rid, item, need_of(item), 0)
      return
    end
  end
end

local function take_next()
  local rid, item, class = aged()
  local held = rid ~= nil -- room is kept for an aged item that does not fit yet: only P0 goes before it
  if rid then
    local need, prefill = need_of(item), tonumber(item.prompt)
    if fits(item, class.aged_seats, need, prefill, false) then take(rid, item, need, prefill); return true end
  end
  for index, one in ipairs(classes) do
    if held and not one.urgent then blocked_from = index; return false end
    if one.seats > 0 and not one.paused then
      local depth
      rid, item, depth = next_of(one)
      if rid then
        local need, prefill = need_of(item), math.max(0, tonumber(item.prompt) - tokens_of(depth))
        if fits(item, one.seats, need, prefill, one.urgent) then take(rid, item, need, prefill, held); return true end
        -- Who does not fit now is not overtaken by the less urgent, or it would never fit.
        blocked_from = index
        return false
      end
    end
  end
  return false
end

if may_try and not off and redis.call('EXISTS', 'sl:trial:' .. model) == 1 then take_suspect() end
while not off and take_next() do end
if #taken > 0 then redis.call('SET', 'sl:taken:' .. model, count) end

local waiting, others, seen = 0, {}, {}
local function other(name)
  if not seen[name] and #others < MAX_OTHERS then seen[name] = true; others[#others + 1] = name end
end
for _, home in ipairs(homes) do other(home) end
for index, class in ipairs(classes) do
  local left = redis.call('ZCARD', 'sl:ready:' .. class.queue)
  if #taken > 0 then redis.call('LTRIM', 'sl:waits:' .. class.queue, 0, 499) end
  redis.call('HSET', 'sl:room:' .. class.queue, wid, index >= blocked_from and 0 or math.max(0, class.seats))
  if left > 0 and not class.paused then
    local room, rooms = 0, redis.call('HGETALL', 'sl:room:' .. class.queue)
    for i = 1, #rooms, 2 do
      if rooms[i] ~= wid and tonumber(rooms[i + 1]) > 0 and room < left then
        room = room + tonumber(rooms[i + 1])
        other(rooms[i])
      end
    end
    waiting = waiting + left
  end
end
return {'ok', taken, off and 0 or waiting, others}
