-- The gateway puts a lost item back, with what its client has already got.
-- ARGV: 1 rid  2 gid  3 attempt  4 delivered text  5 delivered tokens  6 ids of the delivered tokens, packed
-- Returns {'ready', ring}, {'spent'} when its retries are used up, {'guilty'} when it has killed two engines,
-- {'gone'} when it is not this gateway's to put back.
local rid = ARGV[1]
local item = load_item(rid)
if not item or item.gw ~= ARGV[2] or item.attempt ~= ARGV[3] then return {'gone'} end
if item.state ~= 'lost' then return {'ready', 0} end -- put back already; the first reply was lost on the way
if item.guilty == '1' then return {'guilty'} end
if tonumber(item.attempt) - tonumber(item.forgiven) > tonumber(item.max_retries) then return {'spent'} end
local now = now_ms()
local deadline = now + math.max(tonumber(item.wait_ms), RESUME_MS)
local made = tonumber(ARGV[5]) - tonumber(item.text_tokens or 0)
local deaths = tonumber(item.deaths)
note_wasted(item, tonumber(ARGV[5]), now)
redis.call('HSET', 'sl:item:' .. rid, 'state', 'ready', 'text', ARGV[4], 'text_tokens', ARGV[5], 'ids', ARGV[6],
  't_ready', now, 'deadline', deadline, 'trial_tokens', deaths > 1 and '' or made + 2,
  'wasted_to', item.wasted_to or 0)
redis.call('ZADD', 'sl:deadlines', deadline, rid)
-- Who had run for long before the first death is hardly its cause; after the second one nobody is spared.
local suspect = deaths > 1 or (item.cause == 'engine_dead' and deaths == 1 and made < SUSPECT_TOKENS)
if suspect and (item.cause == 'engine_dead' or item.cause == 'worker_lost') then
  redis.call('ZADD', 'sl:trial:' .. item.model, now, rid)
else
  enter_queue(rid, item, now) -- its old place in the tenant's line
end
return {'ready', must_ring(item.model, item.class)}
