-- The gateway of an item that shares another's run has heard no end of it: if that one has ended, whoever was to pass its end on
-- is gone, and the item goes on by itself like any whose leader was lost.
-- ARGV: 1 rid  2 gid  3 attempt
-- Returns 1 if its gateway was told so, else 0.
local rid = ARGV[1]
local item = load_item(rid)
if not item or item.gw ~= ARGV[2] or item.attempt ~= ARGV[3] or item.state ~= 'following' then return 0 end
if redis.call('EXISTS', 'sl:item:' .. item.follows) == 1 then return 0 end
lose_follower(rid, item, {t_claim = '1'}, now_ms()) -- it had run, so this one may wait anew
return 1
