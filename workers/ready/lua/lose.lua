-- A worker gives an item back that it cannot finish.
-- ARGV: 1 rid  2 wid  3 attempt  4 cause  5 '1' if another item is to blame.  Returns 1 if it was held.
local item = load_item(ARGV[1])
if not item or item.state ~= 'leased' or item.owner ~= ARGV[2] or item.attempt ~= ARGV[3] then return 0 end
lose_item(ARGV[1], item, ARGV[4], ARGV[5] == '1')
return 1
