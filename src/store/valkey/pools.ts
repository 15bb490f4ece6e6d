import type { Valkey } from '../valkey.ts'

/** What is lacked of a counter. */
export interface Need {
  /** The least that helps anybody. */
  want: number
  /** What all together want. */
  demand: number
  maximum: number
}

/** One counter in one window. */
export interface Pooled {
  name: string
  /** The number of the window, and its length in milliseconds. */
  number: number
  length: number
}

/** What the database has said of a counter. */
export interface Counted {
  /** What all nodes have taken of it. */
  taken: number
  /** When it was made: the database may lose it. */
  born: number
}

/** What a pool has given. What is left there counts as taken. */
export interface Given extends Counted {
  granted: number
  /** What is left there. */
  left: number
  /** Whether a node has lately found that the database has not as much. */
  isDry: boolean
  /** Whether another node is filling it, where it has too little. */
  isFilling: boolean
}

/**
 * What nodes have taken of a counter for all of them: a large part of what the database had left,
 * from which each takes small ones. A pool that is lost takes along what was in it, and nothing is
 * given twice: a pool is of one run of the server.
 */
export interface Pools {
  /** Whether there are any at the moment. */
  readonly isOn: boolean
  /** Takes what is lacked, or a part of it. Undefined where nothing is known of the pool. */
  take(one: Pooled, need: Need, nodes: number): Promise<Given | undefined>
  /** Adds to a pool, perhaps nothing, and ends its filling. It may have arrived where that is `unknown`. */
  add(one: Pooled, count: number, counted: Counted): Promise<'added' | 'refused' | 'unknown'>
  /** Tells others that the database has not as much. */
  noteDry(one: Pooled, need: Need, counted: Counted): void
}

/** In milliseconds: a pool is removed as long after its window. */
const LATE = 5_000

/** In milliseconds: how long one that fills a pool is waited for. */
const FILLING = 100

/** In milliseconds: for how long nobody asks for what the database has not. */
const DRY = 250

// What another program has written counts as nothing: values are there with what only nodes can
// make of them. All scripts begin with this, and are given the secret first.
const SEALED = `local function sign(key, values)
  return redis.sha1hex(ARGV[1] .. key .. ' ' .. table.concat(values, ' '))
end
local function read(key, ...)
  local kept = redis.pcall('HMGET', key, 'seal', ...)
  if kept.err then redis.call('DEL', key) return nil end
  local seal = table.remove(kept, 1)
  for i = 1, #kept do kept[i] = tostring(kept[i]) end
  if seal == sign(key, kept) then return kept end
  if seal then redis.call('DEL', key) end
  return nil
end
local function write(key, names, values)
  local fields = {'seal', sign(key, values)}
  for i = 1, #names do fields[2 * i + 1], fields[2 * i + 2] = names[i], values[i] end
  redis.call('HSET', key, unpack(fields))
end
local function text(number) return string.format('%.0f', number) end
local POOL = {'left', 'taken', 'born'}
local DRY = {'want', 'maximum', 'taken', 'born'}
`

// What is given never takes all nodes together beyond the maximum: a line of a batch has half.
const TAKE = `${SEALED}
local kept = read(KEYS[1], unpack(POOL)) or {0, 0, 0}
local left, taken, born = tonumber(kept[1]), tonumber(kept[2]), tonumber(kept[3])
local want, demand, maximum, nodes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local granted = math.min(left, maximum - taken + left,
  math.max(want, math.min(demand, math.floor(left / nodes)), math.floor(left / (4 * nodes))))
if granted > 0 then
  write(KEYS[1], POOL, {text(left - granted), kept[2], kept[3]})
else
  granted = 0
end
local dry = read(KEYS[2], unpack(DRY))
if dry and granted == 0 and want >= tonumber(dry[1]) and maximum <= tonumber(dry[2]) then
  return {0, left, tonumber(dry[3]), tonumber(dry[4]), 1, 0}
end
local isFilling = 0
if granted < want then
  local rest, most = redis.call('PTTL', KEYS[3]), tonumber(ARGV[6])
  if rest > 0 and rest <= most then isFilling = 1 else redis.call('SET', KEYS[3], 1, 'PX', most) end
end
return {granted, left - granted, taken, born, 0, isFilling}`

const ADD = `${SEALED}
local kept = read(KEYS[1], unpack(POOL)) or {0, 0, 0}
local left = tonumber(kept[1]) + tonumber(ARGV[2])
local taken, born = tonumber(kept[2]), tonumber(kept[3])
if tonumber(ARGV[4]) > born or tonumber(ARGV[4]) == born and tonumber(ARGV[3]) > taken then
  taken, born = tonumber(ARGV[3]), tonumber(ARGV[4])
end
write(KEYS[1], POOL, {text(left), text(taken), text(born)})
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('DEL', KEYS[2], KEYS[3])
return 1`

const NOTE_DRY = `${SEALED}
redis.call('DEL', KEYS[1])
write(KEYS[1], DRY, {ARGV[2], ARGV[3], ARGV[4], ARGV[5]})
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return 1`

/** The scripts of pools. */
export const POOL_SCRIPTS = { take: TAKE, add: ADD, noteDry: NOTE_DRY }

/**
 * Opens the pools of a server whose connections have the scripts. What `hide` makes of a name nobody
 * else can make.
 */
export function openPools(valkey: Valkey, hide: (name: string) => string): Pools {
  const secret = hide('seal of pools')
  const nameKeys = ({ name, number }: Pooled): string[] => {
    const key = `${valkey.prefix}pool:${valkey.run}:${hide(name)}:${number}`
    return [key, `${key}:dry`, `${key}:filling`]
  }
  return {
    get isOn() {
      return valkey.run !== null
    },
    async take(one, { want, demand, maximum }, nodes) {
      const values = [secret, want, demand, maximum, nodes, FILLING]
      const answer = await valkey.runScript('take', nameKeys(one), values)
      if (answer === undefined) return undefined
      const [granted = 0, left = 0, taken = 0, born = 0, isDry = 0, isFilling = 0] = (
        answer as unknown[]
      ).map(Number)
      return { granted, left, taken, born, isDry: isDry === 1, isFilling: isFilling === 1 }
    },
    async add(one, count, { taken, born }) {
      if (valkey.run === null) return 'refused'
      let isRefused = false
      const refuse = () => {
        isRefused = true
      }
      const values = [secret, count, taken, born, one.length + LATE]
      const answer = await valkey.runScript('add', nameKeys(one), values, refuse)
      return answer !== undefined ? 'added' : isRefused ? 'refused' : 'unknown'
    },
    noteDry(one, { want, maximum }, { taken, born }) {
      const [, key = ''] = nameKeys(one)
      void valkey.runScript('noteDry', [key], [secret, want, maximum, taken, born, DRY])
    },
  }
}
