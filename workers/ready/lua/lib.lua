-- Shared by all scripts of the ready set; each script is the constants, this text, and its own.
--
-- Keys (all start with "sl:"; a queue is <model>:<class>):
--   sl:item:<rid>            hash    one admitted request, from admission to settlement (fields: see admit.lua)
--   sl:body:<rid>            string  its body, apart so that only the claim reads it
--   sl:ready:<queue>         zset    rid -> ms when it began to wait: who waits, the oldest first
--   sl:turn:<queue>          zset    tenant -> virtual token counter, of tenants that wait: whose turn it is
--   sl:idle:<queue>          zset    tenant -> counter, of tenants that wait for nothing
--   sl:line:<queue>:<tenant> zset    rid -> order of admission: who is next in the tenant's own line
--   sl:clock:<queue>         string  counter at which newcomers start while nobody waits
--   sl:order                 string  number of the latest admission
--   sl:taken:<model>         string  items taken so far: every so many goes to who waited longest (ageing)
--   sl:trial:<model>         zset    rid -> ms: suspects, which were on an engine when it died
--   sl:bytes:<queue>         string  bytes of the bodies that wait
--   sl:prefixed:<queue>      string  items that wait and whose prompt is long enough to have a named prefix
--   sl:expect:<model>        hash    class -> output tokens of a sequence, smoothed
--   sl:rung:<queue>          string  a ticket is under way (expires, in case it was lost)
--   sl:deadlines             zset    rid -> ms at which a waiting item is refused
--   sl:rate:<level>:<id>     hash    token buckets of a minute: r requests, i prompt tokens, o answer tokens, t both: what is left,
--                                    below 0 for debt, absent for all; at (ms). level: t tenant, k key; id: the database's
--   sl:slots:<level>:<id>    set     rids that wait or run: each is an item, and so under its gateway's or worker's lease
--   sl:spent:<level>:<id>:<period>   hash  r, i, o, c (cost in billionths): spent in the day d20261130 or month m202611 (UTC) in
--                                    which it was admitted; hr, hi, ho, hc: held for what waits or runs; a: tokens of
--                                    adjustments; since (ms): what ended from then on is counted; base: '1' once what ended
--                                    before is added; made (ms): when it was begun. A tenant's is kept for every request, a
--                                    key's from its first request with a limit of such a period
--   sl:adjusted:t:<id>:<month>   string  adjusted by hand before anybody asked for anything in it
--   sl:born                  string  ms at which this store began to count
--   sl:exhausted:<month>     set     "<tenant id>:<code of the limit>" of budgets that a request found no room in
--   sl:ended:<ten minutes>   set     rids that ended in them
--   sl:idem:<tenant>:<digest>  hash  the note of an idempotency key; sl:kept:<rid>: an answer that is kept, see idempotency.lua
--   sl:flight:<flight>, sl:followers:<rid>   who shares whose run, see flights.lua
--   sl:answer:<key>, sl:answers...           kept answers, see answers.lua
--   sl:refresh:<key>         string  gateway that computes this kept answer anew before its time is up; expires
--   sl:workers               set     worker ids, dead ones too until the sweep has seen them
--   sl:worker:<wid>          hash    live state; expires with the worker's lease
--   sl:held:<wid>            set     rids under that worker's lease
--   sl:tokenizer:<digest>    string  how a model's prompts become tokens (workers/tokenization), for gateways to count by; a day,
--                                    renewed while a worker lives that has it
--   sl:served:<wid>          zset    prefix hash -> ms: prefixes that its KV cache holds, as far as we know
--   sl:ctl:<wid>             stream  orders to that worker (abort)
--   sl:room:<queue>          hash    wid -> sequences free for that class
--   sl:models                set     models that some worker served
--   sl:switch                hash    "queue:<queue>" or "worker:<wid>" -> "paused" or "draining", set by operators
--   sl:waits:<queue>         list    the latest queue waits in ms
--   sl:tokens:<minute>       hash    "<model>|<class>|<tenant>" -> weighted tokens of service in that minute
--   sl:gateways              set     gateway ids, likewise
--   sl:gateway:<gid>         string  lives as long as the gateway
--   sl:gwitems:<gid>         set     rids whose connection that gateway holds
--   sl:out:<gid>             stream  what engines produce for that gateway: field m = msgpack list of events
--   sl:sweep, sl:swept       string  a sweep was just here; when the last one was (ms)
--   sl:grace                 string  nobody is taken for dead while it lives
--   sl:settle                stream  one entry for each request that ended
--   sl:traces                stream  what gateways noted of requests, many in one entry, until it is stored; bounded
--   sl:steps                 stream  what workers tell of their engines' steps, until it is stored; bounded
--   sl:sim:delays            string  delays that a test asks for, on the simulator alone
--   sl:unsettled             stream  those that no usage row can be made of
--   sl:made:<day>            hash    "<model>|requests", "|prompt_tokens", "|cached_tokens", "|completion_tokens": what the endings of
--                                    that day told, by day of the end (UTC); "<model>|wasted:<cause>": answer tokens that were made
--                                    and never delivered, because the attempt was lost; since (ms): when it was begun
--   sl:reconcile             string  a reconciliation is under way
--   sl:erased:<tenant id>    hash    gateway -> mark of the tenant's cache salt (workers/erasure.py)
--   sl:prompt:<id>           hash    a stored prompt, see caching/prompt_rows.py; no script touches it
--   sl:prefilled:<id>:<version>:<model>   string  this prompt's prefix was prefilled a while ago; sl:prefills:<minute>[:<tenant id>]:
--                                    how many were, see gateway/prompts/warm_up.py; no script touches them
--   sl:hot:rings, sl:hot:list, sl:hot:leader   the whitelist, see caching/hot/hot_store.py; no script touches it

local CLASSES = {'p0', 'p1', 'p2'}

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

local function switch_of(name)
  return redis.call('HGET', 'sl:switch', name)
end

-- Tells a gateway something; a gateway that is gone has no stream and hears nothing.
local function tell_gateway(gid, event)
  redis.call('XADD', 'sl:out:' .. gid, 'NOMKSTREAM', 'MAXLEN', '~', 200000, '*', 'm', cmsgpack.pack({event}))
end

-- Fair order: virtual token counters ------------------------------------------------------------------------------

-- The counter at which a newcomer starts: nobody brings saved-up credit, nobody is held back for it either.
local function floor_of(queue)
  local least = redis.call('ZRANGE', 'sl:turn:' .. queue, 0, 0, 'WITHSCORES')
  return tonumber(least[2] or redis.call('GET', 'sl:clock:' .. queue) or 0)
end

-- Count service to a tenant: cost in weighted tokens, which may correct an earlier estimate downwards.
local function charge(item, cost, now)
  if cost == 0 then return end
  local queue, amount = queue_of(item), cost / tonumber(item.weight)
  if redis.call('ZSCORE', 'sl:turn:' .. queue, item.tenant) then
    redis.call('ZINCRBY', 'sl:turn:' .. queue, amount, item.tenant)
  else
    local idle = 'sl:idle:' .. queue
    local base = tonumber(redis.call('ZSCORE', idle, item.tenant) or floor_of(queue))
    redis.call('ZADD', idle, tostring(base + amount), item.tenant)
  end
  local tokens = 'sl:tokens:' .. math.floor(now / 60000)
  local sum = redis.call('HINCRBYFLOAT', tokens, item.model .. '|' .. item.class .. '|' .. item.tenant, tostring(cost))
  if tonumber(sum) == cost then redis.call('PEXPIRE', tokens, 900000) end
end

local function enter_queue(rid, item, now)
  local queue = queue_of(item)
  local turn, idle = 'sl:turn:' .. queue, 'sl:idle:' .. queue
  if not redis.call('ZSCORE', turn, item.tenant) then
    local own = tonumber(redis.call('ZSCORE', idle, item.tenant) or 0)
    redis.call('ZADD', turn, tostring(math.max(own, floor_of(queue))), item.tenant)
    redis.call('ZREM', idle, item.tenant)
  end
  redis.call('ZADD', 'sl:ready:' .. queue, now, rid)
  redis.call('ZADD', 'sl:line:' .. queue .. ':' .. item.tenant, item.order, rid)
  redis.call('INCRBY', 'sl:bytes:' .. queue, item.size)
  if item.prefix ~= '' then redis.call('INCR', 'sl:prefixed:' .. queue) end
end

-- Keep the counter of a tenant that waits for nothing more: what it still runs is charged to it, floor or no floor.
local function leave_turn(queue, tenant)
  local turn, idle = 'sl:turn:' .. queue, 'sl:idle:' .. queue
  local own = redis.call('ZSCORE', turn, tenant)
  if not own then return end
  redis.call('ZREM', turn, tenant)
  redis.call('ZADD', idle, own, tenant)
  redis.call('ZREMRANGEBYRANK', idle, 0, -100001) -- bounded, whatever tenants come and go
end

local function leave_queue(rid, item)
  local queue = queue_of(item)
  if redis.call('ZREM', 'sl:ready:' .. queue, rid) == 0 then redis.call('ZREM', 'sl:trial:' .. item.model, rid); return end
  local line = 'sl:line:' .. queue .. ':' .. item.tenant
  redis.call('ZREM', line, rid)
  if redis.call('DECRBY', 'sl:bytes:' .. queue, item.size) <= 0 then redis.call('DEL', 'sl:bytes:' .. queue) end
  if item.prefix ~= '' and redis.call('DECR', 'sl:prefixed:' .. queue) <= 0 then redis.call('DEL', 'sl:prefixed:' .. queue) end
  if redis.call('ZCARD', line) == 0 then leave_turn(queue, item.tenant) end
end

-- What the engine really did replaces what was estimated. u: {prompt, cached, completion}
local function charge_rest(item, u, now)
  if item.charged ~= '1' then return end
  local real = COST_PROMPT * (u[1] - u[2]) + COST_CACHED * u[2] + COST_OUTPUT * u[3]
  charge(item, real - COST_PROMPT * tonumber(item.prompt) - COST_OUTPUT * tonumber(item.produced or 0), now)
end

-- Room ------------------------------------------------------------------------------------------------------------

-- rooms: 'p0=3,p1=2': sequences that a worker has free for each class it serves.
local function set_rooms(wid, model, rooms)
  local off = switch_of('worker:' .. wid)
  for class, free in string.gmatch(rooms, '(%w+)=(%d+)') do
    redis.call('HSET', 'sl:room:' .. model .. ':' .. class, wid, off and '0' or free)
  end
end

-- 1 if a ticket has to be published, since an engine has room; 2 if one is under way; 0 if nothing has room.
local function must_ring(model, class)
  local queue = model .. ':' .. class
  if switch_of('queue:' .. queue) == 'paused' then return 0 end
  for _, free in ipairs(redis.call('HVALS', 'sl:room:' .. queue)) do
    if tonumber(free) > 0 then
      return redis.call('SET', 'sl:rung:' .. queue, '1', 'NX', 'PX', 1000) and 1 or 2
    end
  end
  return 0
end
