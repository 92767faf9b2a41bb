-- A suspect got past the point at which its engine died: it runs on like any other.
-- ARGV: 1 rid  2 wid  3 attempt
local key = 'sl:item:' .. ARGV[1]
local owner, attempt = unpack(redis.call('HMGET', key, 'owner', 'attempt'))
if owner == ARGV[2] and attempt == ARGV[3] then redis.call('HDEL', key, 'trial') end
