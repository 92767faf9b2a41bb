-- The gateway ends an item: its client left, its time is up, or it cannot go on.
-- ARGV: 1 rid  2 outcome  3 status  4 code  5 prompt  6 cached  7 completion tokens
-- Returns 'closed' (it waited, or shared another's run: ended here), 'expired' (its time is up and it never ran: refused as
-- such), 'aborting' (its worker was told and ends it) or 'gone'.
local rid = ARGV[1]
local item = load_item(rid)
if not item then return 'gone' end
if item.state == 'leased' then
  redis.call('XADD', 'sl:ctl:' .. item.owner, 'NOMKSTREAM', 'MAXLEN', '~', 10000, '*', 'abort', rid, 'outcome', ARGV[2], 'status', ARGV[3], 'code', ARGV[4])
  return 'aborting'
end
if ARGV[2] == 'timeout' and never_ran(item) then
  expire_item(rid, item, now_ms())
  return 'expired'
end
leave_queue(rid, item)
close_item(rid, item, ARGV[2], ARGV[3], ARGV[4], {tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])}, now_ms())
return 'closed'
