-- The lots of a lottery, drawn once the sale has started: those who joined before are put in line in an order that the
-- seed alone decides. A seed, once stored, stays; so a draw that is interrupted goes on as the same draw.
-- ARGV: seed, sale start in ms, how many now. Answers how many are left.
local on_sale, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
if now < on_sale or redis.call('EXISTS', DRAW) == 0 then
  return redis.call('ZCARD', DRAW)
end
redis.call('HSETNX', META, 'seed', ARGV[1])
local seed = redis.call('HGET', META, 'seed')
local drawn = redis.call('ZPOPMIN', DRAW, limit)
for i = 1, #drawn, 2 do
  local lot = tonumber(string.sub(redis.sha1hex(seed .. ':' .. drawn[i]), 1, 12), 16)
  redis.call('ZADD', LINE, whole(lot), drawn[i])
end
return redis.call('ZCARD', DRAW)
