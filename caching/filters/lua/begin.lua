-- name, owner, lease_ms, generation, library, bits, hashes -> 1, or 0 while another one rebuilds
if not redis.call('SET', ROOT .. ':lease', ARGV[2], 'NX', 'PX', ARGV[3]) then
  return 0
end
drop('building') -- of somebody who did not come to an end
local asked = redis.call('HGET', ROOT, 'asked') or '0'
redis.call('HSET', key(ARGV[4]), 'run', run_id(), 'state', 'building', 'begun_ms', string.format('%.0f', clock()), 'seq', 0,
  'asked', asked, 'library', ARGV[5], 'bits', ARGV[6], 'hashes', ARGV[7])
redis.call('HSET', ROOT, 'building', ARGV[4])
return 1
