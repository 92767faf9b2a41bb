-- Limits at two levels: 't' is a tenant, all its keys together, 'k' one key. A limit is {level, code, cap}, see
-- domain/limits.py; an item's need of it is set aside at admission and replaced by what was used when it ends.

local RATE = {rm = 'r', im = 'i', om = 'o', tm = 't'} -- of a minute, by code; fields of sl:rate
local DAY = {rd = 'r', id = 'i', od = 'o'}
local MONTH = {tM = 't', cM = 'c'}
local MINUTE_MS, HOUR_MS, DAY_MS = 60000, 3600000, 86400000
local NEVER = math.huge

-- The calendar (UTC) ----------------------------------------------------------------------------------------------

local MONTH_DAYS = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

-- Days from the first of January 1970 to that of a year.
local function days_before(year)
  local past = year - 1
  return (year - 1970) * 365 + math.floor(past / 4) - math.floor(past / 100) + math.floor(past / 400) - 477
end

-- Name, first ms and first ms of the next, of the day and of the month that a moment is in.
local function calendar(ms)
  local day = math.floor(ms / DAY_MS)
  local year = 1970 + math.floor(day / 365.2425)
  while days_before(year) > day do year = year - 1 end
  while days_before(year + 1) <= day do year = year + 1 end
  local leap = days_before(year + 1) - days_before(year) - 365
  local month, first, length = 1, days_before(year), 31
  while day >= first + length do
    month, first = month + 1, first + length
    length = MONTH_DAYS[month] + (month == 2 and leap or 0)
  end
  return {name = string.format('d%04d%02d%02d', year, month, day - first + 1), begins = day * DAY_MS, ends = (day + 1) * DAY_MS},
    {name = string.format('m%04d%02d', year, month), begins = first * DAY_MS, ends = (first + length) * DAY_MS}
end

-- What was spent and is held in a day or a month -------------------------------------------------------------------

local function spent_key(level, id, period) return 'sl:spent:' .. level .. ':' .. id .. ':' .. period end

local function number(value) return value and tonumber(value) or 0 end

local function read_spent(key)
  local since, base, r, i, o, c, a, hr, hi, ho, hc = unpack(
    redis.call('HMGET', key, 'since', 'base', 'r', 'i', 'o', 'c', 'a', 'hr', 'hi', 'ho', 'hc'))
  if not since then return nil end
  i, o, hi, ho = number(i), number(o), number(hi), number(ho)
  return {key = key, since = tonumber(since), known = base == '1',
    spent = {r = number(r), i = i, o = o, t = i + o + number(a), c = number(c)},
    held = {r = number(hr), i = hi, o = ho, t = hi + ho, c = number(hc)}}
end

-- The hash of a period, begun if it is missing. A tenant's is kept for every request: if it is missing although the store
-- is older than the period, nothing was used in it, unless it was adjusted by hand. In all other cases only the database
-- knows what was used before.
local function open_spent(level, id, period, now)
  local key = spent_key(level, id, period.name)
  local found = read_spent(key)
  if found then return found end
  redis.call('SET', 'sl:born', now, 'NX')
  local complete = level == 't' and tonumber(redis.call('GET', 'sl:born')) <= period.begins
    and redis.call('EXISTS', 'sl:adjusted:t:' .. id .. ':' .. period.name) == 0
  -- What ended in this very ms counts as before, or it might be counted twice.
  redis.call('HSET', key, 'made', now, 'since', complete and period.begins or now + 1)
  if complete then redis.call('HSET', key, 'base', '1') end
  redis.call('PEXPIRE', key, (string.sub(period.name, 1, 1) == 'd' and 3 or 40) * DAY_MS)
  return read_spent(key)
end

local function hold(spent, needs)
  local held = spent.held
  redis.call('HSET', spent.key, 'hr', held.r + 1, 'hi', held.i + needs.i, 'ho', held.o + needs.o)
  -- Cost may grow beyond what a Lua number holds exactly.
  if needs.c > 0 then redis.call('HINCRBY', spent.key, 'hc', needs.c) end
end

-- What an ended item used takes the place of what was held for it. A hash that was begun anew since its admission never
-- held anything for it, and one that counts from later on than its end will hear of it from the database.
local function settle_spent(key, item, held, used, now)
  local since, made, r, i, o, hr, hi, ho = unpack(
    redis.call('HMGET', key, 'since', 'made', 'r', 'i', 'o', 'hr', 'hi', 'ho'))
  if not since then return end
  held = held and tonumber(item.t_admit) >= number(made)
  r, i, o, hr, hi, ho = number(r), number(i), number(o), number(hr), number(hi), number(ho)
  if now >= tonumber(since) then
    r, i, o = r + 1, i + used.i, o + used.o
    if used.c > 0 then redis.call('HINCRBY', key, 'c', used.c) end
  end
  if held then
    hr, hi, ho = hr - 1, hi - tonumber(item.res_i), ho - tonumber(item.res_o)
    if item.res_c ~= '0' then redis.call('HINCRBY', key, 'hc', '-' .. item.res_c) end
  end
  redis.call('HSET', key, 'r', r, 'i', i, 'o', o, 'hr', hr, 'hi', hi, 'ho', ho)
end

-- Token buckets of a minute ----------------------------------------------------------------------------------------

-- Levels of an owner's buckets as last written; a missing one is full.
local function read_rate(level, id)
  local key = 'sl:rate:' .. level .. ':' .. id
  local v = redis.call('HMGET', key, 'at', 'r', 'i', 'o', 't')
  return {key = key, at = tonumber(v[1] or 0), r = tonumber(v[2] or nil), i = tonumber(v[3] or nil),
    o = tonumber(v[4] or nil), t = tonumber(v[5] or nil), drawn = {}}
end

local function level_of(rate, field, cap, now)
  if not rate[field] then return cap end
  return math.min(cap, rate[field] + math.max(0, now - rate.at) * cap / MINUTE_MS)
end

local function draw(rate, now)
  redis.call('HSET', rate.key, 'at', math.max(now, rate.at), unpack(rate.drawn))
  redis.call('PEXPIRE', rate.key, HOUR_MS)
end

-- Give back what was not used, as if only the rest had been drawn at admission; who used more goes into debt.
local function give_back(level, id, limits, unused)
  local key, changes, debt_ms = 'sl:rate:' .. level .. ':' .. id, {}, 0
  for _, limit in ipairs(limits) do
    local field = limit[1] == level and RATE[limit[2]]
    if field and (unused[field] or 0) ~= 0 then
      local before = redis.call('HGET', key, field)
      if before then
        local after = math.min(limit[3], tonumber(before) + unused[field])
        debt_ms = math.max(debt_ms, -after * MINUTE_MS / limit[3])
        changes[#changes + 1], changes[#changes + 2] = field, after
      end
    end
  end
  if #changes > 0 then redis.call('HSET', key, unpack(changes)) end
  if debt_ms > 0 then redis.call('PEXPIRE', key, math.ceil(debt_ms) + HOUR_MS) end
end

-- All limits of one item -------------------------------------------------------------------------------------------

-- Read all that its limits are about, changing nothing but the begin of a period.
local function open_quota(item, now)
  local day, month = calendar(now)
  local input, output = tonumber(item.res_i), tonumber(item.res_o)
  local quota = {limits = cmsgpack.unpack(item.limits), periods = {day, month}, unknown = {},
    needs = {r = 1, i = input, o = output, t = input + output, c = tonumber(item.res_c)},
    rate = {}, slots = {}, day = {t = open_spent('t', item.tenant_id, day, now)},
    month = {t = open_spent('t', item.tenant_id, month, now)}}
  for _, limit in ipairs(quota.limits) do
    local level, code = limit[1], limit[2]
    local id = level == 't' and item.tenant_id or item.key_id
    if RATE[code] then quota.rate[level] = quota.rate[level] or read_rate(level, id)
    elseif DAY[code] then quota.day[level] = quota.day[level] or open_spent(level, id, day, now)
    elseif MONTH[code] then quota.month[level] = quota.month[level] or open_spent(level, id, month, now)
    else quota.slots[level] = 'sl:slots:' .. level .. ':' .. id end
  end
  return quota
end

-- The same for an item that is over at its admission: it needs no slot, and of the rest no more than it used.
local function over_at_once(quota, u, cost)
  quota.needs, quota.at_once = {r = 1, i = u[1], o = u[3], t = u[1] + u[3], c = cost}, true
end

-- Which periods the database has to complete: {1 if some of what ended before is not written down yet, level, period, ms from
-- which on the hash counts, ...}, and whether a limit depends on it.
local function unknown_of(quota)
  local found, blocks, since = {0}, false, 0
  for index, name in ipairs({'day', 'month'}) do
    for level, spent in pairs(quota[name]) do
      if not spent.known then
        for _, part in ipairs({level, quota.periods[index].name, spent.since}) do found[#found + 1] = part end
        since = math.max(since, spent.since)
      end
    end
  end
  if #found == 1 then return {}, false end
  local oldest = redis.call('XRANGE', 'sl:settle', '-', '+', 'COUNT', 1)[1]
  if oldest and tonumber(string.match(oldest[1], '^%d+')) < since then found[1] = 1 end
  for _, limit in ipairs(quota.limits) do
    local spent = DAY[limit[2]] and quota.day[limit[1]] or MONTH[limit[2]] and quota.month[limit[1]]
    blocks = blocks or (spent and not spent.known)
  end
  return found, blocks
end

-- How much of a limit is left, the item's need of it, ms until so much may be there, and the ms at which all of it is there
-- again, nil for what flows back.
local function look_at(quota, limit, now)
  local level, code, cap = limit[1], limit[2], limit[3]
  local field = RATE[code]
  if field then
    local rate, need = quota.rate[level], quota.needs[field]
    local left = level_of(rate, field, cap, now)
    rate.drawn[#rate.drawn + 1], rate.drawn[#rate.drawn + 2] = field, left - need
    return left, need, need > cap and NEVER or math.ceil((need - left) * MINUTE_MS / cap)
  end
  if code == 'n' then
    if quota.at_once then return cap, 0, 0 end
    return cap - redis.call('SCARD', quota.slots[level]), 1, 1000
  end
  field = DAY[code] or MONTH[code]
  local spent, ends = (DAY[code] and quota.day or quota.month)[level], quota.periods[DAY[code] and 1 or 2].ends
  local need, used, wait = quota.needs[field], spent.spent[field], ends - now
  if need > cap then wait = NEVER
  -- Tokens that are only held may come back any moment; requests do not.
  elseif field ~= 'r' and used + need <= cap then wait = 1000 end
  return cap - used - spent.held[field], need, wait, ends
end

-- Look at all limits. Returns the one that bars the item for longest as {number, left, ms} or nil, and what was seen.
local function check(quota, now)
  local worst, seen = nil, {}
  for number, limit in ipairs(quota.limits) do
    local left, need, wait, ends = look_at(quota, limit, now)
    if left < need and (not worst or wait > worst[3]) then worst = {number, left, wait} end
    seen[number] = {left, need, ends}
  end
  return worst, seen
end

-- Of the limits of requests, and of those of tokens, the one that leaves least: number, left, ms until all of it is there
-- again; zeros where there is none. taken: the item has what it needs.
local function tightest(quota, seen, taken, now)
  local found = {0, 0, 0, 0, 0, 0}
  for number, limit in ipairs(quota.limits) do
    local field, one = RATE[limit[2]] or DAY[limit[2]] or MONTH[limit[2]], seen[number]
    if field and field ~= 'c' then
      local at, left = field == 'r' and 1 or 4, one[1] - (taken and one[2] or 0)
      local reset = one[3] and one[3] - now or math.ceil((limit[3] - left) * MINUTE_MS / limit[3])
      left = math.max(0, math.floor(left))
      if found[at] == 0 or left < found[at + 1] or (left == found[at + 1] and reset > found[at + 2]) then
        found[at], found[at + 1], found[at + 2] = number, left, reset
      end
    end
  end
  return found
end

local function reserve(quota, item, rid, now)
  for _, rate in pairs(quota.rate) do draw(rate, now) end
  for _, periods in ipairs({quota.day, quota.month}) do
    for _, spent in pairs(periods) do hold(spent, quota.needs) end
  end
  redis.call('SADD', 'sl:slots:t:' .. item.tenant_id, rid)
  if quota.slots.k then redis.call('SADD', quota.slots.k, rid) end
end

-- Endings ----------------------------------------------------------------------------------------------------------

-- The first of the item's prices whose version begins its own, and what it used costs by it. u: {prompt, cached, completion}
local function cost_of(item, u)
  local version = item.version or ''
  for _, price in ipairs(cmsgpack.unpack(item.prices)) do
    if string.sub(version, 1, #price[1]) == price[1] then
      return (u[1] - u[2]) * price[3] + u[2] * price[4] + u[3] * price[5], price[2]
    end
  end
  return 0, ''
end

-- Give slots and unused tokens back, and turn what was held into what was spent. Nothing is held of an item that the store has
-- lost, or that was over at its admission.
local function release(rid, item, u, cost, now)
  local limits, limited, held = cmsgpack.unpack(item.limits), {}, not item.holds_nothing
  for _, limit in ipairs(limits) do limited[limit[1] .. limit[2]] = true end
  local used = {i = u[1], o = u[3], c = cost}
  settle_spent(spent_key('t', item.tenant_id, item.day), item, held, used, now)
  settle_spent(spent_key('t', item.tenant_id, item.month), item, held, used, now)
  local day, month = spent_key('k', item.key_id, item.day), spent_key('k', item.key_id, item.month)
  if redis.call('EXISTS', day, month) > 0 then
    settle_spent(day, item, held and (limited.krd or limited.kid or limited.kod), used, now)
    settle_spent(month, item, held and (limited.ktM or limited.kcM), used, now)
  end
  if not held then return end
  redis.call('SREM', 'sl:slots:t:' .. item.tenant_id, rid)
  if limited.kn then redis.call('SREM', 'sl:slots:k:' .. item.key_id, rid) end
  local unused = {i = tonumber(item.res_i) - u[1], o = tonumber(item.res_o) - u[3]}
  unused.t = unused.i + unused.o
  give_back('t', item.tenant_id, limits, unused)
  give_back('k', item.key_id, limits, unused)
end

-- Which requests ended in the last ten minutes or so, so that what ended in order is neither admitted nor settled once more.
local ENDED_MS = 600000

local function ended_key(ms) return 'sl:ended:' .. math.floor(ms / ENDED_MS) end

local function note_ended(rid, now) redis.call('SADD', ended_key(now), rid) end

-- Whether it ended in the last so many ms, at most ENDED_MS.
local function has_ended(rid, since_ms, now)
  local this, before = ended_key(now), ended_key(now - since_ms)
  return redis.call('SISMEMBER', this, rid) == 1 or (before ~= this and redis.call('SISMEMBER', before, rid) == 1)
end

local function let_ended_expire(now)
  for _, ms in ipairs({now, now - ENDED_MS}) do redis.call('PEXPIRE', ended_key(ms), 2 * ENDED_MS, 'NX') end
end
