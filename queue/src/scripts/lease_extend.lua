-- A fan holds seats: the lease now lasts as long as the reservation, whether or not Redis still knew of the fan.
-- ARGV: user, reservation, remaining ms.
redis.call('HSET', BOUND, ARGV[1], ARGV[2])
redis.call('ZADD', INSIDE, whole(now + tonumber(ARGV[3])), ARGV[1])
for _, key in ipairs({LINE, PARKED, DRAW, BEAT}) do
  redis.call('ZREM', key, ARGV[1])
end
if redis.call('HGET', OWED, ARGV[1]) == 'owed' then
  redis.call('HDEL', OWED, ARGV[1])
end
return 1
