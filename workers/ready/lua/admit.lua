-- Check and reserve the quota, then put the item into the fair ready set: all or nothing.
-- ARGV: 1 rid  2 requests per minute or ''  3 tokens per minute or ''  4 slots or ''  5 tokens to reserve
--       6 most that may wait in the queue  7 most bytes that may wait there or ''  8 ms it may wait  9 body
--       10.. further fields of the item: name, value, ... (tenant, tenant_id, key_id, model, class, gw, endpoint, stream,
--       salt, prio, seqs, trace, max_retries, weight, prompt = tokens estimated, out = output tokens at most, prefix)
-- Returns {'ok', ring, requests left, ms to full, tokens left, ms to full, waiting} or
--         {'no', reason, limit, left, ms until it may pass}.
local rid = ARGV[1]
local rpm, tpm, slots = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local reserve, max_waiting, max_bytes, wait_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local body = ARGV[9]
local now = now_ms()

local item = {}
for i = 10, #ARGV, 2 do item[ARGV[i]] = ARGV[i + 1] end
local queue = queue_of(item)
local slots_key = 'sl:slots:' .. item.tenant
local r_key, t_key = 'sl:rate:' .. item.tenant .. ':r', 'sl:rate:' .. item.tenant .. ':t'
local r_level = rpm and bucket_level(r_key, rpm, now) or 0
local t_level = tpm and bucket_level(t_key, tpm, now) or 0

-- Sent twice because the first answer was lost on the way: it is admitted already.
local again = redis.call('EXISTS', 'sl:item:' .. rid) == 1

if not again then
  if slots and redis.call('SCARD', slots_key) >= slots then
    return {'no', 'concurrency', slots, 0, 1000}
  end
  if rpm and r_level < 1 then
    return {'no', 'requests', rpm, 0, math.ceil((1 - r_level) * 60000 / rpm)}
  end
  if tpm and reserve > tpm then
    return {'no', 'request_too_large', tpm, math.floor(t_level), 0}
  end
  if tpm and t_level < reserve then
    return {'no', 'tokens', tpm, math.max(0, math.floor(t_level)), math.ceil((reserve - t_level) * 60000 / tpm)}
  end
  if switch_of('queue:' .. queue) == 'draining' then
    return {'no', 'draining', 0, 0, 5000}
  end
  if redis.call('ZCARD', 'sl:ready:' .. queue) >= max_waiting then
    return {'no', 'queue_full', max_waiting, 0, 1000}
  end
  if max_bytes and tonumber(redis.call('GET', 'sl:bytes:' .. queue) or 0) + #body > max_bytes then
    return {'no', 'queue_bytes', max_bytes, 0, 5000}
  end

  if rpm then r_level = r_level - 1; bucket_set(r_key, r_level, now) end
  if tpm then t_level = t_level - reserve; bucket_set(t_key, t_level, now) end
  redis.call('SADD', slots_key, rid)

  item.order, item.size = redis.call('INCR', 'sl:order'), #body
  redis.call('HSET', 'sl:item:' .. rid, 'state', 'ready', 'attempt', 0, 't_admit', now, 't_ready', now, 'wait_ms', wait_ms,
    'deadline', now + wait_ms, 'reserved', reserve, 'tpm', ARGV[3], 'order', item.order, 'size', item.size,
    unpack(ARGV, 10))
  redis.call('SET', 'sl:body:' .. rid, body)
  redis.call('ZADD', 'sl:deadlines', now + wait_ms, rid)
  redis.call('SADD', 'sl:gwitems:' .. item.gw, rid)
  redis.call('SADD', 'sl:gateways', item.gw) -- a gateway that was taken for dead meanwhile is swept again
  enter_queue(rid, item, now)
end

return {'ok', must_ring(item.model, item.class),
  rpm and math.floor(r_level) or -1, rpm and math.ceil((rpm - r_level) * 60000 / rpm) or 0,
  tpm and math.max(0, math.floor(t_level)) or -1, tpm and math.ceil((tpm - t_level) * 60000 / tpm) or 0,
  redis.call('ZCARD', 'sl:ready:' .. queue)}
