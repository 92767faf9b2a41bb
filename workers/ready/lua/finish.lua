-- A worker ends an item that it holds. Idempotent: the second call finds nothing and does nothing.
-- ARGV: 1 rid  2 wid  3 attempt  4 outcome  5 status  6 code  7 prompt  8 cached  9 completion tokens  10 ms of the first token or ''
--       11 model version  12 event for the gateway, packed  13 model  14 rooms after it, such as 'p0=3,p1=2'
-- Returns 1 if it ended here.
local rid, wid = ARGV[1], ARGV[2]
if redis.call('EXISTS', 'sl:worker:' .. wid) == 1 then set_rooms(wid, ARGV[13], ARGV[14]) end
local item = load_item(rid)
if not item or item.state ~= 'leased' or item.owner ~= wid or item.attempt ~= ARGV[3] then return 0 end
redis.call('SREM', 'sl:held:' .. wid, rid)
item.version, item.t_first = ARGV[11], ARGV[10]
if ARGV[4] == 'completed' then
  local made = tonumber(ARGV[9]) / tonumber(item.seqs)
  local so_far = tonumber(redis.call('HGET', 'sl:expect:' .. item.model, item.class) or made)
  redis.call('HSET', 'sl:expect:' .. item.model, item.class, tostring(so_far + (made - so_far) / 16))
end
redis.call('XADD', 'sl:out:' .. item.gw, 'NOMKSTREAM', 'MAXLEN', '~', 200000, '*', 'm', ARGV[12])
close_item(rid, item, ARGV[4], ARGV[5], ARGV[6], {tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])}, now_ms())
return 1
