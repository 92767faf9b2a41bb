-- A gateway keeps an answer for all. One that finds no room even after others gave way is not kept.
-- ARGV: 1 key  2 answer, packed  3 tenant id  4 ms to keep it  5 bytes that all may take  6 ms when it was made
--       7 prompt  8 cached  9 completion tokens of the run that made it  10 version of the model
local key, packed, tenant, most, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5]), now_ms()
local size, till = #packed + ENTRY_BYTES, now + tonumber(ARGV[4])
expire_answers(now)
local segment = remove_answer(key) or 'once' -- a newer answer to what was asked for again is wanted as well
local fits = till > now and size <= most
if not make_room(fits and size or 0, most, now) or not fits then return end
redis.call('HSET', 'sl:answer:' .. key, 'a', packed, 't', tenant, 's', segment, 'b', size, 'until', till, 'at', ARGV[6],
  'p', ARGV[7], 'c', ARGV[8], 'o', ARGV[9], 'v', ARGV[10])
redis.call('ZADD', 'sl:answers:due', till, key)
enter_segment(key, tenant, segment, size, now)
