-- A slot belongs to a request that is alive, and every such request has its slot.
-- ARGV: 1 slots' name, such as t:1  2 rid
if redis.call('EXISTS', 'sl:item:' .. ARGV[2]) == 1 then
  redis.call('SADD', 'sl:slots:' .. ARGV[1], ARGV[2])
else
  redis.call('SREM', 'sl:slots:' .. ARGV[1], ARGV[2])
end
