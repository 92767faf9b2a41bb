-- Keys. <name> is the filter's, <gen> a generation's id.
--   sl:filter:<name>            hash: clock (ms, never goes back), current and building (generations), asked and answered
--                               (how often a rebuild was asked for, and up to where one has begun since)
--   sl:filter:<name>:<gen>      hash: run (of the server that it began on), state (building | complete), begun_ms, seq (deltas so
--                               far), asked, library, bits, hashes; once complete: items, bytes, check
--   sl:filter:<name>:<gen>:bits string: the filter as it was filled, without the deltas
--   sl:filter:<name>:<gen>:log  stream: deltas <seq>-0, field d: digest of an item; from 1 on without a gap, never trimmed
--   sl:filter:<name>:<gen>:added set: the same digests, to be asked for one
--   sl:filter:<name>:lease      string: who rebuilds

local ROOT = 'sl:filter:' .. ARGV[1]

-- The time of all this, in ms. The server's own clock may be set back; this one stands still then.
local function clock()
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local last = tonumber(redis.call('HGET', ROOT, 'clock') or '0')
  if last >= now then
    return last
  end
  redis.call('HSET', ROOT, 'clock', string.format('%.0f', now))
  return now
end

local function key(gen)
  return ROOT .. ':' .. gen
end

local function drop(which)
  local gen = redis.call('HGET', ROOT, which)
  if gen then
    redis.call('UNLINK', key(gen), key(gen) .. ':bits', key(gen) .. ':log', key(gen) .. ':added')
    redis.call('HDEL', ROOT, which)
  end
end

local function run_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

-- A generation is good on the server run that it began on only: after a restart or a failover its last deltas may be
-- missing. It goes at once, so that it is not good again when its server comes back with this one's data.
local function valid(which)
  local gen = redis.call('HGET', ROOT, which)
  if gen and redis.call('HGET', key(gen), 'run') ~= run_id() then
    drop(which)
    return nil
  end
  return gen or nil
end

-- Whether this owner still rebuilds this generation; it goes on doing so for ms.
local function holds(owner, gen, ms)
  if redis.call('GET', ROOT .. ':lease') ~= owner or valid('building') ~= gen then
    return false
  end
  redis.call('PEXPIRE', ROOT .. ':lease', ms)
  return true
end
