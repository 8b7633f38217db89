-- Turn the operator's dial. ARGV: version that the caller knows, dial as JSON. The version only rises, also after Redis
-- forgot it, so that nobody mistakes an old dial for the latest. Answers the new version.
local version = math.max(tonumber(redis.call('HGET', DIAL, 'version') or '0'), tonumber(ARGV[1])) + 1
redis.call('HSET', DIAL, 'version', version, 'dial', ARGV[2])
return version
