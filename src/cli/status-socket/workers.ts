import { parseObject } from '../../base/json.ts'
import type { EndpointState, State } from '../../extensions/activity/entries.ts'
import { listWorkers, locateWorker } from '../data-directory.ts'
import type { Conversation } from '../status-socket.ts'

/** Opens a conversation with one server. The request is made once it has answered. */
type Open = (data: string, request?: () => object) => Promise<Conversation | undefined>

/** A request to servers. */
type Request = Record<string, unknown>

interface Opened {
  worker: number
  conversation: Conversation
}

/**
 * Talks to all servers beneath a data directory as if they were one: each gets the request. Undefined
 * where none answers.
 */
export async function openWorkers(
  data: string,
  request: Request | undefined,
  open: Open,
): Promise<Conversation | undefined> {
  let isFirst = true
  const ask = () => {
    // What is past is in the store of all.
    const own = isFirst ? { ...request } : { ...request, past: 0 }
    isFirst = false
    return own
  }
  const all = await Promise.all(
    listWorkers(data).map(async worker => {
      const conversation = await open(locateWorker(data, worker), request && ask)
      return conversation ? [{ worker, conversation }] : []
    }),
  )
  const opened = all.flat()
  if (opened.length === 0) return undefined
  const feed = new JoinedFeed(data, opened, request?.do === 'watch' ? open : null)
  return { status: joinStatuses(opened), batches: feed.read(), close: () => feed.close() }
}

/** What the first one tells, with the calls of all and each one's process. */
function joinStatuses(opened: Opened[]): string {
  const statuses = opened.map(({ conversation }) => parseObject(conversation.status) ?? {})
  const workers = statuses.map(({ pid, running_calls, draining }, i) => ({
    ...{ worker: opened[i]?.worker, pid, running_calls: Number(running_calls), draining },
  }))
  return JSON.stringify({ ...statuses[0], ...add(workers, ['running_calls']), workers })
}

/** In milliseconds, between two looks at whether a worker that has ended is there again. */
const LOOK_PAUSE = 1_000

type Batches = AsyncGenerator<string[], void>

/** What several servers tell, as it comes. One that has ended is heard again when it is back. */
class JoinedFeed {
  readonly #data: string
  readonly #reopen: Open | null
  readonly #opened: Map<number, Conversation>
  readonly #states = new StateSum()
  #isClosed = false

  constructor(data: string, opened: Opened[], reopen: Open | null) {
    this.#data = data
    this.#reopen = reopen
    this.#opened = new Map(opened.map(({ worker, conversation }) => [worker, conversation]))
  }

  close(): void {
    this.#isClosed = true
    for (const { close } of this.#opened.values()) close()
  }

  /** Reads until all have ended. */
  async *read(): Batches {
    const take = async (worker: number, source: Batches) => {
      const { value, done } = await source.next()
      return { worker, source, lines: done ? null : value }
    }
    const waiting = new Map(
      [...this.#opened.keys()].map(worker => [worker, take(worker, this.#follow(worker))]),
    )
    while (waiting.size > 0) {
      const { worker, source, lines } = await Promise.race(waiting.values())
      waiting.delete(worker)
      if (lines === null) continue
      waiting.set(worker, take(worker, source))
      const told = lines
        .filter(line => line !== '')
        .flatMap(line => this.#states.take(line, worker))
      if (told.length > 0) yield told
    }
  }

  async *#follow(worker: number): Batches {
    const request = () => ({ do: 'watch', past: 0 })
    while (!this.#isClosed) {
      const conversation = this.#opened.get(worker)
      if (conversation) yield* conversation.batches
      this.#opened.delete(worker)
      this.#states.forget(worker)
      if (!this.#reopen || this.#isClosed || this.#opened.size === 0) return
      await Bun.sleep(LOOK_PAUSE)
      const again = await this.#reopen(locateWorker(this.#data, worker), request)
      if (again) this.#opened.set(worker, again)
    }
  }
}

/** How often others say how they are until one that says nothing is left out. */
const PATIENCE = 3

/** How several servers are doing, told as of one: each time the first of them says how it is. */
class StateSum {
  readonly #states = new Map<number, State>()
  /** When each has said how it is, counted in what all have said. */
  readonly #heard = new Map<number, number>()
  #turn = 0
  #isListening = false

  /** Returns the lines that are told in place of one. */
  take(line: string, worker: number): string[] {
    if (line.startsWith('{"type":"listening"')) {
      const isFirst = !this.#isListening
      this.#isListening = true
      return isFirst ? [line] : []
    }
    if (!line.startsWith('{"type":"state"')) return [line]
    const before = this.#states.get(worker)
    const state: State = JSON.parse(line)
    this.#states.set(worker, before ? { ...state, ...add([before, state], COUNTS) } : state)
    this.#heard.set(worker, ++this.#turn)
    this.#leaveSilent()
    const [first] = this.#states.keys()
    if (worker !== first) return []
    const told = JSON.stringify(joinStates([...this.#states.values()] as [State, ...State[]]))
    for (const [of, one] of this.#states) this.#states.set(of, { ...one, ...add([], COUNTS) })
    return [told]
  }

  forget(worker: number): void {
    this.#states.delete(worker)
    this.#heard.delete(worker)
  }

  // One that stands still keeps its connection, and would be waited for.
  #leaveSilent(): void {
    for (const [worker, turn] of this.#heard)
      if (this.#turn - turn > PATIENCE * this.#heard.size) this.forget(worker)
  }
}

/** What was done since the entry before. */
const COUNTS = [
  'finished',
  'failed',
  'refused',
  'tokens_prompt',
  'tokens_completion',
  'cost',
] as const

/** Adds up fields of all. */
function add<Field extends string>(
  all: Record<Field, number>[],
  fields: readonly Field[],
): Record<Field, number> {
  const sums = {} as Record<Field, number>
  for (const field of fields) {
    sums[field] = 0
    for (const one of all) sums[field] += one[field]
  }
  return sums
}

/** Takes the largest of each field that is known of any. */
function takeLargest<Field extends string>(
  all: Record<Field, number | null>[],
  fields: readonly Field[],
): Record<Field, number | null> {
  const largest = {} as Record<Field, number | null>
  for (const field of fields) {
    largest[field] = null
    for (const { [field]: value } of all)
      if (value !== null) largest[field] = Math.max(value, largest[field] ?? value)
  }
  return largest
}

/** Joins the states of servers. Of times the longest is told: percentiles cannot be added. */
function joinStates(states: [State, ...State[]]): State {
  const queues = states.map(one => one.queues)
  const endpoints = Map.groupBy(
    states.flatMap(one => one.endpoints),
    ({ endpoint }) => endpoint,
  )
  return {
    ...states[0],
    ...add(states, [...COUNTS, 'running_calls', 'memory_bytes']),
    ...takeLargest(states, ['first_part_p50', 'first_part_p95']),
    draining: states.some(one => one.draining),
    queues: { ...states[0].queues, ...add(queues, ['calls', 'records', 'deliveries']) },
    endpoints: Array.from(endpoints.values(), joinEndpoints),
  }
}

const joinEndpoints = (states: EndpointState[]): EndpointState => ({
  ...(states.find(({ cooldown }) => cooldown !== null) ?? (states[0] as EndpointState)),
  is_probing: states.some(one => one.is_probing),
  ...add(states, ['succeeded', 'failed']),
  ...takeLargest(states, ['latency_p50', 'latency_p95', 'throughput_p50']),
})
