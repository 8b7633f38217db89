-- One admitter an event. KEYS: the office. ARGV: who asks, lease in ms; 0 gives the office back.
local holder, lease = redis.call('GET', KEYS[1]), tonumber(ARGV[2])
if holder and holder ~= ARGV[1] then
  return 0
end
if lease > 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', lease)
  return 1
end
redis.call('DEL', KEYS[1])
return 0
