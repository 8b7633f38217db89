-- One tick: end leases, drop the silent, let in whom there is room for. At most one tick a second does anything, whoever
-- asks, so that two admitters can never admit twice.
-- ARGV: capacity, batch, silence in ms, drops a tick, pass lifetime in s, nonce, sale start in ms, grace of a bound
-- lease in ms, lifetime of the keys in s.
-- Answers {1 if this tick counted, now, inside, waiting, admitted, dropped, expired, parked}.
local capacity, batch, silence, drops = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local lifetime, nonce, on_sale = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local grace, retention = tonumber(ARGV[8]), tonumber(ARGV[9])

local function report(counted, admitted, dropped, expired)
  return {counted, whole(now), redis.call('ZCARD', INSIDE), redis.call('ZCARD', LINE) + redis.call('ZCARD', DRAW),
    admitted, dropped, expired, redis.call('ZCARD', PARKED)}
end

local second, last = math.floor(now / 1000), tonumber(redis.call('HGET', META, 'second') or '0')
-- A clock that was set back is believed after a few seconds; until then nobody is let in.
if second <= last and last - second < 5 then
  return report(0, 0, 0, 0)
end
redis.call('HSET', META, 'second', second)

local expired = 0
for _, user in ipairs(redis.call('ZRANGEBYSCORE', INSIDE, '-inf', now, 'LIMIT', 0, 1000)) do
  if redis.call('HEXISTS', BOUND, user) == 0 or tonumber(redis.call('ZSCORE', INSIDE, user)) + grace <= now then
    expire(user)
    expired = expired + 1
  end
end

local dropped = 0
local function forget(user)
  redis.call('ZREM', LINE, user)
  redis.call('ZREM', PARKED, user)
  redis.call('ZREM', BEAT, user)
  dropped = dropped + 1
end
-- Whoever was away before the sale started has a full silence from then on to come back to the old place.
local patient = now < on_sale + silence
if not patient then
  for _, user in ipairs(redis.call('ZRANGEBYSCORE', BEAT, '-inf', '(' .. whole(now - silence), 'LIMIT', 0, drops)) do
    forget(user)
  end
end

local admitted, looked = 0, 0
local room = math.min(batch, capacity - redis.call('ZCARD', INSIDE))
-- Nobody enters before everybody's lot is drawn.
if now < on_sale or redis.call('EXISTS', DRAW) == 1 then
  room = 0
end
while admitted < room and looked < drops do
  local head = redis.call('ZRANGE', LINE, 0, 0, 'WITHSCORES')
  if not head[1] then
    break
  end
  local user = head[1]
  local beat = tonumber(redis.call('ZSCORE', BEAT, user) or '0')
  if beat >= now - silence then
    local iat = math.floor(now / 1000)
    local number = redis.call('HINCRBY', META, 'admitted', 1)
    redis.call('ZREM', LINE, user)
    redis.call('ZREM', BEAT, user)
    redis.call('ZADD', INSIDE, whole((iat + lifetime) * 1000), user)
    redis.call('HSET', PASS, user, nonce .. '-' .. whole(number) .. '|' .. whole(iat) .. '|' .. whole(iat + lifetime))
    redis.call('XADD', NEWS, 'MAXLEN', '~', 20000, '*', 'u', user)
    admitted = admitted + 1
  elseif patient then
    redis.call('ZREM', LINE, user)
    redis.call('ZADD', PARKED, head[2], user)
    looked = looked + 1
  else
    forget(user)
    looked = looked + 1
  end
end

local rate = tonumber(redis.call('HGET', META, 'rate') or '0')
local seconds = math.max(1, math.min(60, second - last))
rate = rate + (admitted / seconds - rate) * (1 - math.pow(0.95, seconds))
redis.call('HSET', META, 'rate', string.format('%.6f', rate))
for _, key in ipairs(KEYS) do
  redis.call('EXPIRE', key, retention)
end
return report(1, admitted, dropped, expired)
