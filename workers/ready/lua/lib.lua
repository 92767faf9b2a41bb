-- Shared by all scripts of the ready set; each script is this text followed by its own.
--
-- Keys (all start with "sl:"):
--   sl:item:<rid>            hash    one admitted request, from admission to settlement (fields: see admit.lua)
--   sl:body:<rid>            string  its body, apart so that only the claim reads it
--   sl:ready:<model>:<class> zset    rid -> fair tag: who waits, in the order in which they are claimed
--   sl:tags:<model>:<class>  hash    tenant -> tag where its next item starts (virtual token counter)
--   sl:clock:<model>:<class> string  tag of the item claimed last: nobody starts before it (no credit is hoarded)
--   sl:rung:<model>:<class>  string  a ticket is under way (expires, in case it was lost)
--   sl:deadlines             zset    rid -> ms at which a waiting item is refused
--   sl:rate:<tenant>:<kind>  hash    token bucket: level, at (ms); kind r = requests, t = tokens
--   sl:slots:<tenant>        set     rids that hold one of the tenant's concurrency slots
--   sl:workers               set     worker ids, dead ones too until the sweep has seen them
--   sl:worker:<wid>          hash    live state; expires with the worker's lease
--   sl:held:<wid>            set     rids under that worker's lease
--   sl:ctl:<wid>             stream  orders to that worker (abort)
--   sl:room:<model>          hash    wid -> free sequences
--   sl:models                set     models that some worker served
--   sl:gateways              set     gateway ids, likewise
--   sl:gateway:<gid>         string  lives as long as the gateway
--   sl:gwitems:<gid>         set     rids whose connection that gateway holds
--   sl:out:<gid>             stream  what engines produce for that gateway: field m = msgpack list of events
--   sl:sweep, sl:swept       string  a sweep was just here; when the last one was (ms)
--   sl:grace                 string  nobody is taken for dead while it lives
--   sl:settle                stream  one entry for each request that ended

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function load_item(rid)
  local flat = redis.call('HGETALL', 'sl:item:' .. rid)
  if #flat == 0 then return nil end
  local item = {}
  for i = 1, #flat, 2 do item[flat[i]] = flat[i + 1] end
  return item
end

local function queue_of(item)
  return item.model .. ':' .. item.class
end

-- Level of a token bucket now. cap: what it holds and what flows in each minute.
local function bucket_level(key, cap, now)
  local level, at = unpack(redis.call('HMGET', key, 'level', 'at'))
  if not level then return cap end
  return math.min(cap, tonumber(level) + (now - tonumber(at)) * cap / 60000)
end

local function bucket_set(key, level, now)
  redis.call('HSET', key, 'level', tostring(level), 'at', now)
  redis.call('PEXPIRE', key, 3600000)
end

-- Tells a gateway something; a gateway that is gone has no stream and hears nothing.
local function tell_gateway(gid, event)
  redis.call('XADD', 'sl:out:' .. gid, 'NOMKSTREAM', 'MAXLEN', '~', 200000, '*', 'm', cmsgpack.pack({event}))
end

-- The one end of every admitted request: slot back, unused tokens back, one settlement, nothing left.
-- u: {prompt, cached, completion}
local function close_item(rid, item, outcome, status, code, u, now)
  redis.call('SREM', 'sl:slots:' .. item.tenant, rid)
  if item.tpm ~= '' then
    local key = 'sl:rate:' .. item.tenant .. ':t'
    local cap = tonumber(item.tpm)
    local unused = tonumber(item.reserved) - u[1] - u[3]
    bucket_set(key, math.min(cap, bucket_level(key, cap, now) + unused), now)
  end
  redis.call('ZREM', 'sl:deadlines', rid)
  redis.call('SREM', 'sl:gwitems:' .. item.gw, rid)
  redis.call('XADD', 'sl:settle', '*', 'rid', rid, 'tenant_id', item.tenant_id, 'key_id', item.key_id,
    'model', item.model, 'version', item.version or '', 'class', item.class, 'endpoint', item.endpoint,
    'stream', item.stream, 'outcome', outcome, 'status', status, 'code', code, 'prompt', u[1], 'cached', u[2],
    'completion', u[3], 'attempt', item.attempt, 'cause', item.cause or '', 'batch', item.batch or '',
    'worker', item.owner or '', 'gateway', item.gw, 't_admit', item.t_admit, 't_claim', item.t_claim or '',
    't_first', item.t_first or '', 't_end', now)
  redis.call('DEL', 'sl:item:' .. rid, 'sl:body:' .. rid)
end

local function unready(rid, item)
  redis.call('ZREM', 'sl:ready:' .. queue_of(item), rid)
end

-- A waiting item whose time is up: refused with a reason, never run.
local function expire_item(rid, item, now)
  unready(rid, item)
  tell_gateway(item.gw, {rid, tonumber(item.attempt), -1, 'E', 'expired', 429, ''})
  close_item(rid, item, 'expired', 429, 'queue_deadline', {0, 0, tonumber(item.text_tokens or 0)}, now)
end

-- A running item whose engine is gone. Its gateway knows what was delivered, so it decides how the item goes on.
local function lose_item(rid, item, cause)
  redis.call('SREM', 'sl:held:' .. item.owner, rid)
  local attempt = tonumber(item.attempt) + 1
  redis.call('HSET', 'sl:item:' .. rid, 'state', 'lost', 'attempt', attempt, 'cause', cause)
  tell_gateway(item.gw, {rid, attempt, -1, 'L', cause})
end

-- 1 if a ticket has to be published: an engine has room and no ticket is under way.
local function must_ring(model, class)
  local rooms = redis.call('HVALS', 'sl:room:' .. model)
  for _, free in ipairs(rooms) do
    if tonumber(free) > 0 then
      local set = redis.call('SET', 'sl:rung:' .. model .. ':' .. class, '1', 'NX', 'PX', 1000)
      return set and 1 or 0
    end
  end
  return 0
end
