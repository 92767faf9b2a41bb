-- A worker tells how many output tokens its items have so far, so that they count in the fair order as they are produced.
-- ARGV: 1 wid  2.. rid, output tokens, ...
local wid, now = ARGV[1], now_ms()
for i = 2, #ARGV, 2 do
  local key = 'sl:item:' .. ARGV[i]
  local owner, model, class, tenant, weight, produced = unpack(
    redis.call('HMGET', key, 'owner', 'model', 'class', 'tenant', 'weight', 'produced'))
  local more = tonumber(ARGV[i + 1]) - tonumber(produced or 0)
  if owner == wid and more > 0 then
    redis.call('HSET', key, 'produced', ARGV[i + 1])
    charge({model = model, class = class, tenant = tenant, weight = weight}, COST_OUTPUT * more, now)
  end
end
