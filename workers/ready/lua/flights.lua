-- Equal requests share one run. After lib.lua in every script.
--
--   sl:flight:<flight>    string  rid of the request that is computed for all of them: the leader. It goes with its item
--   sl:followers:<rid>    set     rids that share the run of that leader
--
-- A follower is an item in the state "following": it holds what it may use, its slot and its deadline like any other, but waits
-- in no queue. Fields: flight; percent: what it is charged of what the run uses; follows: its leader, until it goes on by itself.

-- The end of a leader touches so many items at most. Who comes then leads the next run.
local MAX_FOLLOWERS = 256

local function in_flight(item) return item.flight and item.flight ~= '' end

-- Whose run an item may share, or nil. Nobody waits behind who is less urgent.
local function leader_of(rid, item)
  if not in_flight(item) then return nil end
  local leader = redis.call('GET', 'sl:flight:' .. item.flight)
  if not leader or leader == rid then return nil end
  local state, class, gw, attempt = unpack(redis.call('HMGET', 'sl:item:' .. leader, 'state', 'class', 'gw', 'attempt'))
  if not state or (state ~= 'leased' and class > item.class) then return nil end
  if redis.call('SCARD', 'sl:followers:' .. leader) >= MAX_FOLLOWERS then return nil end
  return {rid = leader, gw = gw, attempt = tonumber(attempt)}
end

local function follow(rid, item, leader)
  redis.call('HSET', 'sl:item:' .. rid, 'state', 'following', 'follows', leader.rid)
  redis.call('SADD', 'sl:followers:' .. leader.rid, rid)
  tell_gateway(leader.gw, {leader.rid, leader.attempt, -1, 'J', rid, item.gw, tonumber(item.attempt or 0)})
end

local function lead(rid, item)
  if in_flight(item) then redis.call('SET', 'sl:flight:' .. item.flight, rid) end
end

-- An item that no engine has taken, nor the one whose run it shares.
local function never_ran(item)
  if item.t_claim then return false end
  if not item.follows then return true end
  local state, claimed = unpack(redis.call('HMGET', 'sl:item:' .. item.follows, 'state', 't_claim'))
  return state and not claimed
end

-- Version of the model that answers it; '' while nobody knows.
local function version_of(item)
  local own = item.version or (item.follows and redis.call('HGET', 'sl:item:' .. item.follows, 'version'))
  return own or ''
end

-- Its leader ended without an answer. That is no fault of its own, so it uses up no retry; but what kills engines is in the
-- body that both have. It may wait anew only if the leader had already run.
local function lose_follower(rid, item, leader, now)
  local attempt, cause = tonumber(item.attempt) + 1, 'leader_lost'
  local deadline = leader.t_claim and now + math.max(tonumber(item.wait_ms), RESUME_MS) or item.deadline
  redis.call('HSET', 'sl:item:' .. rid, 'state', 'lost', 'attempt', attempt, 'cause', cause,
    'causes', (item.causes and item.causes .. ',' or '') .. cause .. '@' .. (leader.batch or ''),
    'deaths', math.max(tonumber(item.deaths or 0), tonumber(leader.deaths or 0)), 'guilty', leader.guilty or '0',
    'forgiven', tonumber(item.forgiven or 0) + 1, 'deadline', deadline, 'version', leader.version or '')
  redis.call('ZREM', 'sl:deadlines', rid)
  tell_gateway(item.gw, {rid, attempt, -1, 'L', cause})
end

-- With the end of an item, whatever ends it. A leader that completed leaves its followers to its gateway, which has the end
-- that they wait for.
local function leave_flight(rid, item, outcome, now)
  if item.follows then redis.call('SREM', 'sl:followers:' .. item.follows, rid) end
  if not in_flight(item) then return end
  local flight, followers = 'sl:flight:' .. item.flight, 'sl:followers:' .. rid
  if redis.call('GET', flight) == rid then redis.call('DEL', flight) end
  local rids = redis.call('SMEMBERS', followers)
  if #rids == 0 then return end
  redis.call('DEL', followers)
  if outcome == 'completed' then return end
  for _, follower in ipairs(rids) do
    local one = load_item(follower)
    if one and one.state == 'following' and one.follows == rid then lose_follower(follower, one, item, now) end
  end
end
