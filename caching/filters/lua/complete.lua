-- name, owner, generation, items, bytes, check -> 1, or 0 if the caller lost its turn or bits are missing
local gen = ARGV[3]
if not holds(ARGV[2], gen, 1000) or redis.call('STRLEN', key(gen) .. ':bits') ~= tonumber(ARGV[5]) then
  return 0
end
redis.call('HSET', key(gen), 'state', 'complete', 'items', ARGV[4], 'bytes', ARGV[5], 'check', ARGV[6])
drop('current')
redis.call('HSET', ROOT, 'current', gen, 'answered', redis.call('HGET', key(gen), 'asked'))
redis.call('HDEL', ROOT, 'building')
redis.call('DEL', ROOT .. ':lease')
return 1
