-- name, known generation, known seq, most -> now_ms, rebuilds asked for and not begun, state...
-- The state: generation, begun_ms, seq, library, bits, hashes, items, bytes, check, and deltas: seq, digest, ...
-- Deltas come for the generation that the caller knows, at most so many; without a complete generation the state is empty.
local now = clock()
local asked = redis.call('HMGET', ROOT, 'asked', 'answered')
local open = tonumber(asked[1] or '0') - tonumber(asked[2] or '0')
local gen = valid('current')
if not gen then
  return { now, open }
end
local facts = redis.call(
  'HMGET', key(gen), 'begun_ms', 'seq', 'library', 'bits', 'hashes', 'items', 'bytes', 'check')
local deltas = {}
if gen == ARGV[2] and tonumber(facts[2]) > tonumber(ARGV[3]) then
  local from = string.format('%.0f-0', ARGV[3] + 1)
  for _, entry in ipairs(redis.call('XRANGE', key(gen) .. ':log', from, '+', 'COUNT', ARGV[4])) do
    deltas[#deltas + 1] = tonumber(string.match(entry[1], '^%d+'))
    deltas[#deltas + 1] = entry[2][2]
  end
end
return { now, open, gen, facts, deltas }
