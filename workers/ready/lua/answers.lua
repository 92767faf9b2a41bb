-- Kept answers, for all gateways. In the scripts that touch them.
--
--   sl:answer:<key>                hash  a: the answer, packed by its gateway; p, c, o: tokens of the run that made it; v: version of
--                                        the model; at: ms when it was made; t: tenant whose request made it; s: segment; b: bytes
--                                        that it counts as; until: ms until which it is kept
--   sl:answers:<segment>           zset  tenant -> bytes of its answers there
--   sl:answers:<segment>:<tenant>  zset  key -> ms of its last use
--   sl:answers:due                 zset  key -> ms until which it is kept
--   sl:answers                     hash  once, more: answers in each segment; once_bytes, more_bytes; evicted, expired: gone so far
--
-- There are two segments: once, and more for what was asked for again. Room is made in "once" first, so that a flood of answers that
-- nobody wants again pushes nothing out that is wanted; in both from the tenant that has most there, least recently used first.
-- "more" has a bound of its own: what exceeds it goes back to "once", or what was wanted last month would stay for ever.

local MORE_SHARE = 0.8 -- of all bytes
local MAX_MOVED = 64 -- answers that one script moves or removes at most

-- Bytes of an entry beside its answer: its hash, its name in three sorted sets.
local ENTRY_BYTES = 800

local function segment_of(segment, tenant) return 'sl:answers:' .. segment .. ':' .. tenant end

local function enter_segment(key, tenant, segment, size, now)
  redis.call('ZADD', segment_of(segment, tenant), now, key)
  redis.call('ZINCRBY', 'sl:answers:' .. segment, size, tenant)
  redis.call('HINCRBY', 'sl:answers', segment, 1)
  redis.call('HINCRBY', 'sl:answers', segment .. '_bytes', size)
end

local function leave_segment(key, tenant, segment, size)
  redis.call('ZREM', segment_of(segment, tenant), key)
  local left = redis.call('ZINCRBY', 'sl:answers:' .. segment, -size, tenant)
  if tonumber(left) <= 0 then redis.call('ZREM', 'sl:answers:' .. segment, tenant) end
  redis.call('HINCRBY', 'sl:answers', segment, -1)
  redis.call('HINCRBY', 'sl:answers', segment .. '_bytes', -size)
end

local function place_of(key)
  local tenant, segment, size = unpack(redis.call('HMGET', 'sl:answer:' .. key, 't', 's', 'b'))
  if tenant then return {tenant = tenant, segment = segment, size = tonumber(size)} end
end

local function move_answer(key, place, segment, now)
  leave_segment(key, place.tenant, place.segment, place.size)
  enter_segment(key, place.tenant, segment, place.size, now)
  redis.call('HSET', 'sl:answer:' .. key, 's', segment)
end

-- why: 'evicted', 'expired' or nil. Returns the segment that it was in.
local function remove_answer(key, why)
  local place = place_of(key)
  redis.call('ZREM', 'sl:answers:due', key)
  if not place then return nil end
  leave_segment(key, place.tenant, place.segment, place.size)
  redis.call('DEL', 'sl:answer:' .. key)
  if why then redis.call('HINCRBY', 'sl:answers', why, 1) end
  return place.segment
end

local function expire_answers(now)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'sl:answers:due', '-inf', now, 'LIMIT', 0, MAX_MOVED)) do
    remove_answer(key, 'expired')
  end
end

-- Somebody was given this answer, whether by the store or by a gateway that has it too.
local function touch_answer(key, now)
  local place = place_of(key)
  if not place then return end
  if place.segment == 'once' then move_answer(key, place, 'more', now)
  else redis.call('ZADD', segment_of('more', place.tenant), now, key) end
end

-- An answer that is kept and not older than max_age ms: {packed = .., u = {prompt, cached, completion}, version = ..}, or nil.
local function read_answer(key, max_age, now)
  local packed, at, till, p, c, o, version = unpack(
    redis.call('HMGET', 'sl:answer:' .. key, 'a', 'at', 'until', 'p', 'c', 'o', 'v'))
  if not packed then return nil end
  if tonumber(till) <= now then remove_answer(key, 'expired'); return nil end
  if now - tonumber(at) > max_age then return nil end
  return {packed = packed, u = {tonumber(p), tonumber(c), tonumber(o)}, version = version}
end

-- Who gives way next in a segment.
local function least_wanted(segment)
  local tenant = redis.call('ZREVRANGE', 'sl:answers:' .. segment, 0, 0)[1]
  return tenant and redis.call('ZRANGE', segment_of(segment, tenant), 0, 0)[1]
end

local function bytes_of(segment) return tonumber(redis.call('HGET', 'sl:answers', segment .. '_bytes') or 0) end

-- Whether there is room for so many bytes now; what is in the way goes.
local function make_room(size, most, now)
  for _ = 1, MAX_MOVED do
    if bytes_of('more') <= MORE_SHARE * most then break end
    local key = least_wanted('more')
    move_answer(key, place_of(key), 'once', now)
  end
  for _ = 1, MAX_MOVED do
    if bytes_of('once') + bytes_of('more') + size <= most then return true end
    local key = least_wanted('once') or least_wanted('more')
    if not key then return false end
    remove_answer(key, 'evicted')
  end
  return bytes_of('once') + bytes_of('more') + size <= most
end
