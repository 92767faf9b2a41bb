-- The gateway puts a lost item back, with what its client has already got.
-- ARGV: 1 rid  2 gid  3 attempt  4 delivered text  5 delivered tokens
-- Returns {'ready', ring}, {'spent'} when its retries are used up, {'gone'} when it is not this gateway's to put back.
local rid = ARGV[1]
local item = load_item(rid)
if not item or item.gw ~= ARGV[2] or item.attempt ~= ARGV[3] then return {'gone'} end
if item.state ~= 'lost' then return {'ready', 0} end -- put back already; the first reply was lost on the way
if tonumber(item.attempt) > tonumber(item.max_retries) then return {'spent'} end
local deadline = now_ms() + tonumber(item.wait_ms)
redis.call('HSET', 'sl:item:' .. rid, 'state', 'ready', 'text', ARGV[4], 'text_tokens', ARGV[5], 'deadline', deadline)
-- Its old tag puts it in front of those that came later.
redis.call('ZADD', 'sl:ready:' .. queue_of(item), item.tag, rid)
redis.call('ZADD', 'sl:deadlines', deadline, rid)
return {'ready', must_ring(item.model, item.class)}
