-- name, owner, lease_ms, generation, offset, bytes -> 1, or 0 if the caller may not go on
-- Without bytes it only says that the caller is at work.
if not holds(ARGV[2], ARGV[4], ARGV[3]) then
  return 0
end
if ARGV[6] ~= '' then
  redis.call('SETRANGE', key(ARGV[4]) .. ':bits', ARGV[5], ARGV[6])
end
return 1
