-- The reservation has ended: its slot is free. Another reservation's lease stays. ARGV: user, reservation.
if redis.call('HGET', BOUND, ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HDEL', BOUND, ARGV[1])
redis.call('HDEL', PASS, ARGV[1])
return redis.call('ZREM', INSIDE, ARGV[1])
