-- name: asks for a rebuild that begins after this
return redis.call('HINCRBY', ROOT, 'asked', 1)
