-- The store has lost an item that it had admitted; its gateway, which remembers it, settles it.
-- ARGV: 1 rid  2 outcome  3 status  4 code  5 prompt  6 cached  7 completion tokens  8.. fields of the item: name, value, ...
local rid = ARGV[1]
if redis.call('EXISTS', 'sl:item:' .. rid) == 1 then return end
local item = {tpm = ''} -- what was reserved is forgotten too, so there is nothing to give back
for i = 8, #ARGV, 2 do item[ARGV[i]] = ARGV[i + 1] end
close_item(rid, item, ARGV[2], ARGV[3], ARGV[4], {tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])}, now_ms())
