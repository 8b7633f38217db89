-- Whether this fan is inside with this pass. ARGV: user, pass id. Answers live | none | other.
local lease = redis.call('ZSCORE', INSIDE, ARGV[1])
if not lease or (tonumber(lease) <= now and redis.call('HEXISTS', BOUND, ARGV[1]) == 0) then
  return 'none'
end
local pass = redis.call('HGET', PASS, ARGV[1])
if pass and string.match(pass, '^[^|]*') == ARGV[2] then
  return 'live'
end
return 'other'
