-- One visit of one fan: join (or find the old place again), heartbeat, and where he stands.
-- ARGV: user, 1 to join or 0 to look, sale start in ms, 1 for a lottery, most fans in line.
-- Answers {state, now, ...}: inside (lease end, pass, reservation) | waiting (rank, rate) | drawing (how many) |
-- expired | gone | full.
local user, joining, lottery = ARGV[1], ARGV[2] == '1', ARGV[4] == '1'
local on_sale, most = tonumber(ARGV[3]), tonumber(ARGV[5])

local lease = redis.call('ZSCORE', INSIDE, user)
if lease then
  local bound = redis.call('HGET', BOUND, user)
  local pass = redis.call('HGET', PASS, user)
  -- A lease bound to a reservation lasts until the store says that the reservation has ended.
  if bound or (pass and tonumber(lease) > now) then
    return {'inside', whole(now), lease, pass or '', bound or ''}
  end
  expire(user)
end

local place = redis.call('ZSCORE', LINE, user)
if not place then
  place = redis.call('ZSCORE', PARKED, user)
  if place then
    redis.call('ZREM', PARKED, user)
    redis.call('ZADD', LINE, place, user)
  end
end
if not place and redis.call('ZSCORE', DRAW, user) then
  redis.call('ZADD', BEAT, now, user)
  return {'drawing', whole(now), redis.call('ZCARD', DRAW)}
end

if not place then
  local owed = redis.call('HGET', OWED, user) == 'owed'
  if not joining then
    return {owed and 'expired' or 'gone', whole(now)}
  end
  local waiting = redis.call('ZCARD', LINE) + redis.call('ZCARD', PARKED) + redis.call('ZCARD', DRAW)
  if waiting >= most then
    return {'full', whole(now)}
  end
  local number = redis.call('INCR', SEQ)
  if owed then
    redis.call('HSET', OWED, user, 'spent')
    redis.call('ZADD', LINE, whole(number - BASE), user)
  elseif lottery and now < on_sale then
    redis.call('ZADD', DRAW, number, user)
    redis.call('ZADD', BEAT, now, user)
    return {'drawing', whole(now), redis.call('ZCARD', DRAW)}
  else
    redis.call('ZADD', LINE, whole(number + BASE), user)
  end
end
redis.call('ZADD', BEAT, now, user)
return {'waiting', whole(now), redis.call('ZRANK', LINE, user), redis.call('HGET', META, 'rate') or '0'}
