-- name, made_at_ms, margin_ms, digest -> 1 it was added, 0 it was not and does not exist, -1 not known
-- Only of what was announced after the generation began; the margin is for stores whose clocks differ.
local gen, now, made_at, margin = valid('current'), clock(), tonumber(ARGV[2]), tonumber(ARGV[3])
if not gen then
  return -1
end
if made_at > now then
  return made_at > now + margin and 0 or -1
end
if made_at < tonumber(redis.call('HGET', key(gen), 'begun_ms')) + margin then
  return -1
end
-- One that was added by a release before this one, or a list that was lost: then it says nothing.
if redis.call('SCARD', key(gen) .. ':added') ~= tonumber(redis.call('HGET', key(gen), 'seq')) then
  return -1
end
return redis.call('SISMEMBER', key(gen) .. ':added', ARGV[4])
