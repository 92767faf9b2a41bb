-- name, made_at_ms, within_ms, digest -> now_ms, 1 if it was added
-- Refused when the item was announced too long ago: who looks relies on it that an item is added soon or never.
local now, made_at = clock(), tonumber(ARGV[2])
if made_at > now or now - made_at > tonumber(ARGV[3]) then
  return { now, 0 }
end
for _, which in ipairs({ 'current', 'building' }) do
  local gen = valid(which)
  if gen then
    local seq = redis.call('HINCRBY', key(gen), 'seq', 1)
    redis.call('XADD', key(gen) .. ':log', seq .. '-0', 'd', ARGV[4])
    redis.call('SADD', key(gen) .. ':added', ARGV[4])
  end
end
return { now, 1 }
