-- Prepended to every script: the keys of one event, all under one hash tag, in the order of `Keys::all`; and Redis's own
-- clock, the only one that scripts use. Numbers are formatted by hand, because Lua would round long ones.
local SEQ, LINE, BEAT, PARKED, DRAW, INSIDE, PASS, BOUND, OWED, META, NEWS, DIAL = unpack(KEYS)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local BASE = 281474976710656 -- 2^48: below it drawn lots, above it those who came by counter; negative, those let back in

local function whole(number)
  return string.format('%.0f', number)
end

-- A pass that ran out unused gives priority once more, but only once.
local function expire(user)
  redis.call('ZREM', INSIDE, user)
  redis.call('HDEL', PASS, user)
  if redis.call('HDEL', BOUND, user) == 0 and redis.call('HEXISTS', OWED, user) == 0 then
    redis.call('HSET', OWED, user, 'owed')
  end
end
