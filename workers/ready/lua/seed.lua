-- Complete what a period's hash counts with what the database knows from before. Once only, however often it is called.
-- ARGV: 1 level  2 id  3 period  4 ms from which on the hash counts  5 requests  6 prompt tokens  7 answer tokens
--       8 cost in billionths  9 tokens of adjustments by hand
-- Returns 1 if it is complete now; 0 if the hash was begun anew meanwhile, or in this very ms, in which something may still
-- end that neither the database knows nor the hash counts: the database has to be asked again.
local key = spent_key(ARGV[1], ARGV[2], ARGV[3])
local since, base = unpack(redis.call('HMGET', key, 'since', 'base'))
if base == '1' then return 1 end
if since ~= ARGV[4] or now_ms() < tonumber(since) then return 0 end
for index, field in ipairs({'r', 'i', 'o', 'c', 'a'}) do redis.call('HINCRBY', key, field, ARGV[4 + index]) end
redis.call('HSET', key, 'base', '1')
return 1
