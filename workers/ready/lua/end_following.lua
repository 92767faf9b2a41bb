-- The gateway of an item that shared another's run ends it. Idempotent: the second call finds nothing and does nothing.
-- ARGV: 1 rid  2 outcome  3 status  4 code  5 prompt  6 cached  7 completion tokens of the run  8 model version
-- Returns 'closed' or 'gone'.
local rid = ARGV[1]
local item = load_item(rid)
-- One whose leader was lost may have got all of the answer before.
if not item or not item.follows then return 'gone' end
item.version = ARGV[8]
close_item(rid, item, ARGV[2], ARGV[3], ARGV[4], {tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])}, now_ms())
return 'closed'
