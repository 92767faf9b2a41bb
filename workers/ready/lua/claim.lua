-- Take the next items in fair order, as many as the engine has room for, under the worker's lease.
-- ARGV: 1 wid  2 model  3 free sequences  4 batch id  5 '1' if the engine is idle  6.. class, sequences it must leave free, ...
-- Returns {'dead'} or {'ok', {rid, body, item as flat list, rid, ...}, still waiting, another worker with room or ''}.
local wid, model, free, batch, idle = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5] == '1'
local now = now_ms()
if redis.call('SISMEMBER', 'sl:workers', wid) == 0 then return {'dead'} end

local function lease(rid, seq)
  redis.call('ZREM', 'sl:deadlines', rid)
  redis.call('SADD', 'sl:held:' .. wid, rid)
  redis.call('HSET', 'sl:item:' .. rid, 'state', 'leased', 'owner', wid, 'batch', batch, 'seq', seq, 't_claim', now)
  return redis.call('HGETALL', 'sl:item:' .. rid)
end

local taken, waiting = {}, 0
for c = 6, #ARGV, 2 do
  local queue = model .. ':' .. ARGV[c]
  local ready = 'sl:ready:' .. queue
  local leave = tonumber(ARGV[c + 1])
  redis.call('DEL', 'sl:rung:' .. queue)
  while free > leave do
    local head = redis.call('ZRANGE', ready, 0, 0, 'WITHSCORES')
    if #head == 0 then break end
    local rid = head[1]
    local item = load_item(rid)
    if not item then
      redis.call('ZREM', ready, rid)
    elseif tonumber(item.deadline) < now then
      expire_item(rid, item, now)
    else
      local seqs = tonumber(item.seqs)
      -- One request of many sequences waits for room for all of them, unless the engine is idle anyway.
      if seqs > free - leave and not (idle and #taken == 0) then break end
      redis.call('ZREM', ready, rid)
      redis.call('SET', 'sl:clock:' .. queue, head[2])
      free = free - seqs
      taken[#taken + 1] = rid
      taken[#taken + 1] = redis.call('GET', 'sl:body:' .. rid)
      taken[#taken + 1] = lease(rid, (#taken - 2) / 3)
    end
  end
  local left = redis.call('ZCARD', ready)
  if left == 0 then redis.call('DEL', 'sl:tags:' .. queue, 'sl:clock:' .. queue) end
  waiting = waiting + left
end
redis.call('HSET', 'sl:room:' .. model, wid, math.max(0, free))

local other = ''
if waiting > 0 then
  local rooms = redis.call('HGETALL', 'sl:room:' .. model)
  local most = 0
  for i = 1, #rooms, 2 do
    if rooms[i] ~= wid and tonumber(rooms[i + 1]) > most then other, most = rooms[i], tonumber(rooms[i + 1]) end
  end
end
return {'ok', taken, waiting, other}
