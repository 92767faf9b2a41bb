-- Forget ledgers that are gone: consumers that hold nothing and have not asked for long. In one script, so that none is
-- forgotten between its reading an entry and our looking.
-- ARGV: 1 stream  2 group  3 ms
for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', ARGV[1], ARGV[2])) do
  local consumer = {}
  for i = 1, #flat, 2 do consumer[flat[i]] = flat[i + 1] end
  if consumer.pending == 0 and consumer.idle > tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', ARGV[1], ARGV[2], consumer.name)
  end
end
