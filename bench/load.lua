-- One wrk process, one thread: requests picked at random from a plan, and every latency reported.
-- The plan is a Lua file: { heads = {...}, tails = {...} }. With tails, a request is a head, a
-- running number of twelve digits and a tail, so that no store is ever given the same value twice.

local heads, tails, number

function init(args)
  local plan = dofile(args[1])
  heads, tails, number = plan.heads, plan.tails, tonumber(args[2])
  local pause_ms = tonumber(args[3])
  if pause_ms > 0 then
    delay = function() return pause_ms end  -- Before each request of a connection.
  end
  math.randomseed(number)
end

function request()
  local head = heads[math.random(#heads)]
  if #tails == 0 then
    return head
  end
  number = number + 1
  return head .. string.format("%012d", number) .. tails[math.random(#tails)]
end

-- Pairs of microseconds and count, so that several processes can be added up exactly.
function done(summary, latency)
  local errors, pairs_ = summary.errors, {}
  for i = 1, #latency do
    local us, count = latency(i)
    pairs_[i] = string.format("[%d,%d]", us, count)
  end
  io.write(string.format(
    '\nREPORT {"duration_us":%d,"requests":%d,"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,"latency":[%s]}\n',
    summary.duration, summary.requests, errors.status, errors.connect, errors.read, errors.write,
    errors.timeout, table.concat(pairs_, ",")))
end
