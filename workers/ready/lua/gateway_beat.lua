-- A gateway says that it lives. ARGV: 1 gid  2 lease in ms
-- Returns 1 if it was known alive, 0 if this is its first beat or it was taken for dead (then its items are gone).
local gid = ARGV[1]
local known = redis.call('EXISTS', 'sl:gateway:' .. gid)
redis.call('SET', 'sl:gateway:' .. gid, '1', 'PX', ARGV[2])
redis.call('SADD', 'sl:gateways', gid)
if redis.call('EXISTS', 'sl:out:' .. gid) == 0 then redis.call('XADD', 'sl:out:' .. gid, '*', 'm', cmsgpack.pack({})) end
return known
