-- Add what a hash of sums lacks; requests that come and go meanwhile lose nothing by it.
-- ARGV: 1 key  2 since as it was seen, '' if there was no such hash  3 since to begin with  4 ms to keep a new one
--       5.. field, difference, ...
-- Returns 1, or 0 if the hash was begun anew after it was seen.
local key, seen = ARGV[1], ARGV[2]
if (redis.call('HGET', key, 'since') or '') ~= seen then return 0 end
if seen == '' then
  redis.call('HSET', key, 'since', ARGV[3], 'made', ARGV[3], 'base', '1')
  redis.call('PEXPIRE', key, ARGV[4])
end
for i = 5, #ARGV, 2 do redis.call('HINCRBY', key, ARGV[i], ARGV[i + 1]) end
return 1
