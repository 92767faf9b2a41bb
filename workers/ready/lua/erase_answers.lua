-- Keep none of the answers that a tenant's requests made.
-- ARGV: 1 tenant id  2 most answers to remove.  Returns how many went; call it until none is left.
local tenant, most, gone = ARGV[1], tonumber(ARGV[2]), 0
for _, segment in ipairs({'once', 'more'}) do
  local keys = most > gone and redis.call('ZRANGE', segment_of(segment, tenant), 0, most - gone - 1) or {}
  for _, key in ipairs(keys) do remove_answer(key) end
  gone = gone + #keys
end
return gone
