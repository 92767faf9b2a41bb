-- The gateway puts a lost item back, with what its client has already got.
-- ARGV: 1 rid  2 gid  3 attempt  4 delivered text  5 delivered tokens  6 ids of the delivered tokens, packed
-- Returns {'ready', ring}, {'following'} when it shares an equal item's run, {'spent'} when its retries are used up, {'guilty'}
-- when it (or the equal one that it followed) has killed two engines, {'gone'} when it is not this gateway's to put back.
local rid, text, tokens = ARGV[1], ARGV[4], tonumber(ARGV[5])
local item = load_item(rid)
if not item or item.gw ~= ARGV[2] or item.attempt ~= ARGV[3] then return {'gone'} end
if item.state == 'following' then return {'following'} end -- put back already; the first reply was lost on the way
if item.state ~= 'lost' then return {'ready', 0} end
if item.guilty == '1' then return {'guilty'} end
if tonumber(item.attempt) - tonumber(item.forgiven) > tonumber(item.max_retries) then return {'spent'} end
local now, followed = now_ms(), item.follows ~= nil
local deadline = followed and tonumber(item.deadline) or now + math.max(tonumber(item.wait_ms), RESUME_MS)
local made = tokens - tonumber(item.text_tokens or 0)
local deaths = tonumber(item.deaths)
note_wasted(item, tokens, now)
redis.call('HDEL', 'sl:item:' .. rid, 'follows')
redis.call('HSET', 'sl:item:' .. rid, 'state', 'ready', 'text', text, 'text_tokens', tokens, 'ids', ARGV[6],
  't_ready', now, 'deadline', deadline, 'trial_tokens', deaths > 1 and '' or made + 2,
  'wasted_to', item.wasted_to or 0)
redis.call('ZADD', 'sl:deadlines', deadline, rid)
-- What its client has nothing of yet can be shared again; the first that comes back leads the others.
if followed and text == '' and tokens == 0 then
  local leader = leader_of(rid, item)
  if leader then follow(rid, item, leader); return {'following'} end
  lead(rid, item)
end
-- Who had run for long before the first death is hardly its cause; after the second one nobody is spared.
local suspect = deaths > 1 or (item.cause == 'engine_dead' and deaths == 1 and made < SUSPECT_TOKENS)
  or (followed and deaths > 0)
if suspect and (followed or item.cause == 'engine_dead' or item.cause == 'worker_lost') then
  redis.call('ZADD', 'sl:trial:' .. item.model, now, rid)
else
  enter_queue(rid, item, now) -- its old place in the tenant's line
end
return {'ready', must_ring(item.model, item.class)}
