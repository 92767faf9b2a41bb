-- name, owner: ends the turn of who rebuilds, so that another one may begin at once
if redis.call('GET', ROOT .. ':lease') == ARGV[2] then
  drop('building')
  redis.call('DEL', ROOT .. ':lease')
end
return 1
