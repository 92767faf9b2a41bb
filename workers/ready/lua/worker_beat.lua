-- A worker says that it lives, and how it is.
-- ARGV: 1 wid  2 lease in ms  3 '1' on the first beat  4 model  5 rooms of the classes it serves, such as 'p0=3,p1=2'
--       6.. state: name, value, ...
-- Returns {-1, ''} if it was taken for dead meanwhile (it holds nothing any more), else {how many items wait that it may take,
-- what operators switched it to or ''}.
local wid, model = ARGV[1], ARGV[4]
local key = 'sl:worker:' .. wid
-- A lease that ran out is no death yet: only the sweep buries, and a worker that speaks before it goes on.
if ARGV[3] ~= '1' and redis.call('SISMEMBER', 'sl:workers', wid) == 0 then return {-1, ''} end
redis.call('SADD', 'sl:workers', wid)
redis.call('HSET', key, 'model', model, unpack(ARGV, 6))
redis.call('PEXPIRE', key, ARGV[2])
redis.call('SADD', 'sl:models', model)
set_rooms(wid, model, ARGV[5])
if ARGV[3] == '1' then redis.call('XADD', 'sl:ctl:' .. wid, '*', 'hello', '1') end
local switch = switch_of('worker:' .. wid)
if switch then return {0, switch} end
local waiting = redis.call('ZCARD', 'sl:trial:' .. model)
for class in string.gmatch(ARGV[5], '(%w+)=') do
  local queue = model .. ':' .. class
  if switch_of('queue:' .. queue) ~= 'paused' then waiting = waiting + redis.call('ZCARD', 'sl:ready:' .. queue) end
end
return {waiting, ''}
