-- name
return clock()
