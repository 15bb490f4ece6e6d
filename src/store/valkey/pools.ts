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

// What is given never takes all nodes together beyond the maximum: a line of a batch has half.
const TAKE = `local kept = redis.call('HMGET', KEYS[1], 'left', 'taken', 'born')
local left, taken = tonumber(kept[1] or 0), tonumber(kept[2] or 0)
local want, demand, maximum, nodes = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local granted = math.min(left, maximum - taken + left,
  math.max(want, math.min(demand, math.floor(left / nodes)), math.floor(left / (4 * nodes))))
if granted > 0 then
  redis.call('HINCRBY', KEYS[1], 'left', string.format('%d', -granted))
else
  granted = 0
end
local dry = redis.call('HMGET', KEYS[2], 'want', 'maximum', 'taken', 'born')
if dry[1] and granted == 0 and want >= tonumber(dry[1]) and maximum <= tonumber(dry[2]) then
  return {0, left, tonumber(dry[3]), tonumber(dry[4]), 1, 0}
end
local isFilling = 0
if granted < want and not redis.call('SET', KEYS[3], 1, 'NX', 'PX', ARGV[5]) then isFilling = 1 end
return {granted, left - granted, taken, tonumber(kept[3] or 0), 0, isFilling}`

const ADD = `redis.call('HINCRBY', KEYS[1], 'left', ARGV[1])
local kept = redis.call('HMGET', KEYS[1], 'taken', 'born')
local taken, born = tonumber(kept[1] or 0), tonumber(kept[2] or 0)
if tonumber(ARGV[3]) > born or tonumber(ARGV[3]) == born and tonumber(ARGV[2]) > taken then
  redis.call('HSET', KEYS[1], 'taken', ARGV[2], 'born', ARGV[3])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('DEL', KEYS[2], KEYS[3])
return 1`

const NOTE_DRY = `redis.call('HSET', KEYS[1], 'want', ARGV[1], 'maximum', ARGV[2], 'taken', ARGV[3],
  'born', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1`

/** The scripts of pools. */
export const POOL_SCRIPTS = { take: TAKE, add: ADD, noteDry: NOTE_DRY }

/** Opens the pools of a server whose connections have the scripts. */
export function openPools(valkey: Valkey, hide: (name: string) => string): Pools {
  const nameKeys = ({ name, number }: Pooled): string[] => {
    const key = `${valkey.prefix}pool:${valkey.run}:${hide(name)}:${number}`
    return [key, `${key}:dry`, `${key}:filling`]
  }
  return {
    get isOn() {
      return valkey.run !== null
    },
    async take(one, { want, demand, maximum }, nodes) {
      const values = [want, demand, maximum, nodes, FILLING]
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
      const values = [count, taken, born, one.length + LATE]
      const answer = await valkey.runScript('add', nameKeys(one), values, refuse)
      return answer !== undefined ? 'added' : isRefused ? 'refused' : 'unknown'
    },
    noteDry(one, { want, maximum }, { taken, born }) {
      const [, key = ''] = nameKeys(one)
      void valkey.runScript('noteDry', [key], [want, maximum, taken, born, DRY])
    },
  }
}
