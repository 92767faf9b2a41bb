-- A worker says that it lives, and how it is.
-- ARGV: 1 wid  2 lease in ms  3 '1' on the first beat  4 model  5 free sequences  6 classes, comma separated  7.. state: name, value, ...
-- Returns -1 if it was taken for dead meanwhile (it holds nothing any more), else how many items wait for its model.
local wid, model = ARGV[1], ARGV[4]
local key = 'sl:worker:' .. wid
-- A lease that ran out is no death yet: only the sweep buries, and a worker that speaks before it goes on.
if ARGV[3] ~= '1' and redis.call('SISMEMBER', 'sl:workers', wid) == 0 then return -1 end
redis.call('SADD', 'sl:workers', wid)
redis.call('HSET', key, 'model', model, 'free_seqs', ARGV[5], unpack(ARGV, 7))
redis.call('PEXPIRE', key, ARGV[2])
redis.call('SADD', 'sl:models', model)
redis.call('HSET', 'sl:room:' .. model, wid, ARGV[5])
if ARGV[3] == '1' then redis.call('XADD', 'sl:ctl:' .. wid, '*', 'hello', '1') end
local waiting = 0
for class in string.gmatch(ARGV[6], '[^,]+') do
  waiting = waiting + redis.call('ZCARD', 'sl:ready:' .. model .. ':' .. class)
end
return waiting
