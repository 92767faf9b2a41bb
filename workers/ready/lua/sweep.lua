-- Put right what the dead left behind: items of dead workers, of dead gateways, those that waited too long, and old answers.
-- ARGV: 1 ms during which no other sweep runs  2 most items to touch
-- Returns {items lost by workers, items of dead gateways ended, items expired}, or nil if another sweep was just here.
if not redis.call('SET', 'sl:sweep', '1', 'NX', 'PX', ARGV[1]) then return nil end
local now, budget = now_ms(), tonumber(ARGV[2])
let_ended_expire(now)
expire_answers(now)

-- Nobody swept for long: the store itself was away, so nobody could say that he lives. Let all speak first.
local before = redis.call('GETSET', 'sl:swept', now)
if before and now - tonumber(before) > 2000 then redis.call('SET', 'sl:grace', '1', 'PX', 2000) end
local may_bury = redis.call('EXISTS', 'sl:grace') == 0

local lost, ended, expired = 0, 0, 0

-- If one of them was on trial, it is the one to blame for the death.
local function on_trial(rids)
  for _, rid in ipairs(rids) do
    if redis.call('HGET', 'sl:item:' .. rid, 'trial') == '1' then return true end
  end
  return false
end

local function bury_worker(wid)
  local rids = redis.call('SRANDMEMBER', 'sl:held:' .. wid, budget - lost)
  local forgive = on_trial(rids)
  for _, rid in ipairs(rids) do
    local item = load_item(rid)
    if item and item.state == 'leased' and item.owner == wid then lose_item(rid, item, 'worker_lost', forgive) end
    redis.call('SREM', 'sl:held:' .. wid, rid)
    lost = lost + 1
  end
  if redis.call('SCARD', 'sl:held:' .. wid) > 0 then return end
  redis.call('SREM', 'sl:workers', wid)
  redis.call('DEL', 'sl:ctl:' .. wid, 'sl:served:' .. wid)
  redis.call('HDEL', 'sl:switch', 'worker:' .. wid)
end

local function unroom(wid)
  for _, model in ipairs(redis.call('SMEMBERS', 'sl:models')) do
    for _, class in ipairs(CLASSES) do redis.call('HDEL', 'sl:room:' .. model .. ':' .. class, wid) end
  end
end

local function end_item(rid, item)
  if item.state == 'leased' and redis.call('EXISTS', 'sl:worker:' .. item.owner) == 1 then
    redis.call('XADD', 'sl:ctl:' .. item.owner, 'NOMKSTREAM', 'MAXLEN', '~', 10000, '*', 'abort', rid, 'outcome', 'gateway_lost', 'status', 499, 'code', 'gateway_lost')
    return
  end
  if item.owner then redis.call('SREM', 'sl:held:' .. item.owner, rid) end
  leave_queue(rid, item)
  close_item(rid, item, 'gateway_lost', 499, 'gateway_lost', {0, 0, tonumber(item.text_tokens or 0)}, now)
end

local function bury_gateway(gid)
  local items = 'sl:gwitems:' .. gid
  for _, rid in ipairs(redis.call('SRANDMEMBER', items, budget - ended)) do
    local item = load_item(rid)
    if item then end_item(rid, item) else redis.call('SREM', items, rid) end
    ended = ended + 1
  end
  redis.call('DEL', 'sl:out:' .. gid)
  if redis.call('SCARD', items) == 0 then redis.call('SREM', 'sl:gateways', gid) end
end

for _, wid in ipairs(redis.call('SMEMBERS', 'sl:workers')) do
  if may_bury and redis.call('EXISTS', 'sl:worker:' .. wid) == 0 then unroom(wid); bury_worker(wid) end
end
for _, gid in ipairs(redis.call('SMEMBERS', 'sl:gateways')) do
  if may_bury and redis.call('EXISTS', 'sl:gateway:' .. gid) == 0 then bury_gateway(gid) end
end
for _, rid in ipairs(redis.call('ZRANGEBYSCORE', 'sl:deadlines', '-inf', now, 'LIMIT', 0, budget)) do
  local item = load_item(rid)
  -- Who follows a request that runs waits no more.
  local waits = item and (item.state == 'ready' or (item.state == 'following' and never_ran(item)))
  if waits then expire_item(rid, item, now); expired = expired + 1
  else redis.call('ZREM', 'sl:deadlines', rid) end
end
return {lost, ended, expired}
