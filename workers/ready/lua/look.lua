-- What the store knows of one tenant, for the reconciliation; changes nothing. Call it in a transaction with TIME and the
-- settlements that have no row yet, so that all of it is of one moment.
-- ARGV: 1 tenant id  2 how many keys  3.. key ids  then the spent hashes to read, such as t:1:d20261130
-- Returns {slots without a request: slots' name, rid, ..}, {live requests: {rid, key_id, day, month, res_i, res_o, res_c,
-- limits, t_admit}, ..}, {hash as flat list, ..}.
local stray, live, hashes = {}, {}, {}
local keys = tonumber(ARGV[2])

local function look_at(name, is_tenant)
  for _, rid in ipairs(redis.call('SMEMBERS', 'sl:slots:' .. name)) do
    local found = redis.call('HMGET', 'sl:item:' .. rid, 'tenant_id', 'key_id', 'day', 'month', 'res_i', 'res_o', 'res_c', 'limits', 't_admit')
    if not found[1] then
      stray[#stray + 1] = name
      stray[#stray + 1] = rid
    elseif is_tenant then
      found[1] = rid
      live[#live + 1] = found
    end
  end
end

look_at('t:' .. ARGV[1], true)
for i = 3, 2 + keys do look_at('k:' .. ARGV[i], false) end
for i = 3 + keys, #ARGV do hashes[#hashes + 1] = redis.call('HGETALL', 'sl:spent:' .. ARGV[i]) end
return {stray, live, hashes}
