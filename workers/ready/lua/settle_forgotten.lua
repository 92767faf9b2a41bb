-- The store has lost an item that it had admitted; its gateway, which remembers it, settles it.
-- ARGV: 1 rid  2 outcome  3 status  4 code  5 prompt  6 cached  7 completion tokens  8.. fields of the item: name, value, ...
local rid, now = ARGV[1], now_ms()
if redis.call('EXISTS', 'sl:item:' .. rid) == 1 or has_ended(rid, ENDED_MS, now) then return end
local item = {holds_nothing = true} -- what was set aside is forgotten too, so there is nothing to give back
for i = 8, #ARGV, 2 do item[ARGV[i]] = ARGV[i + 1] end
local day, month = calendar(tonumber(item.t_admit))
item.day, item.month = day.name, month.name
close_item(rid, item, ARGV[2], ARGV[3], ARGV[4], {tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])}, now)
