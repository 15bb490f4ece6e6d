import { parseObject } from '../../base/json.ts'
import type { EndpointState, State } from '../../extensions/activity/entries.ts'
import { listWorkers, locateWorker } from '../../store/data-directory.ts'
import type { Conversation } from '../status-socket.ts'

/** Opens a conversation with one server. */
type Open = (data: string, request?: object) => Promise<Conversation | undefined>

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
  const opened: Opened[] = []
  for (const worker of listWorkers(data)) {
    // What is past is in the store of all.
    const own = request && opened.length > 0 ? { ...request, past: 0 } : request
    const conversation = await open(locateWorker(data, worker), own)
    if (conversation) opened.push({ worker, conversation })
  }
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
  const running_calls = sum(workers.map(one => one.running_calls))
  return JSON.stringify({ ...statuses[0], running_calls, workers })
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
    const request = { do: 'watch', past: 0 }
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

/** How several servers are doing, told as of one: each time the first of them says how it is. */
class StateSum {
  readonly #states = new Map<number, State>()
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
    this.#states.set(worker, before ? { ...state, ...addCounts([before, state]) } : state)
    const [first] = this.#states.keys()
    if (worker !== first) return []
    const told = JSON.stringify(joinStates([...this.#states.values()]))
    for (const [of, one] of this.#states) this.#states.set(of, { ...one, ...addCounts([]) })
    return [told]
  }

  forget(worker: number): void {
    this.#states.delete(worker)
  }
}

const sum = (values: number[]): number => values.reduce((one, other) => one + other, 0)

/** Adds what was done since the entry before. */
const addCounts = (states: State[]) => ({
  finished: sum(states.map(one => one.finished)),
  failed: sum(states.map(one => one.failed)),
  refused: sum(states.map(one => one.refused)),
  tokens_prompt: sum(states.map(one => one.tokens_prompt)),
  tokens_completion: sum(states.map(one => one.tokens_completion)),
  cost: sum(states.map(one => one.cost)),
})

/** Joins the states of servers. Of times the longest is told: percentiles cannot be added. */
const joinStates = (states: State[]): State => ({
  ...(states[0] as State),
  ...addCounts(states),
  running_calls: sum(states.map(one => one.running_calls)),
  draining: states.some(one => one.draining),
  memory_bytes: sum(states.map(one => one.memory_bytes)),
  first_part_p50: pickLargest(states.map(one => one.first_part_p50)),
  first_part_p95: pickLargest(states.map(one => one.first_part_p95)),
  queues: {
    calls: sum(states.map(one => one.queues.calls)),
    records: sum(states.map(one => one.queues.records)),
    deliveries: Math.max(...states.map(one => one.queues.deliveries)),
  },
  endpoints: [
    ...Map.groupBy(
      states.flatMap(one => one.endpoints),
      ({ endpoint }) => endpoint,
    ).values(),
  ].map(joinEndpoints),
})

const joinEndpoints = (states: EndpointState[]): EndpointState => ({
  ...(states.find(({ cooldown }) => cooldown !== null) ?? (states[0] as EndpointState)),
  is_probing: states.some(one => one.is_probing),
  succeeded: sum(states.map(one => one.succeeded)),
  failed: sum(states.map(one => one.failed)),
  latency_p50: pickLargest(states.map(one => one.latency_p50)),
  latency_p95: pickLargest(states.map(one => one.latency_p95)),
  throughput_p50: pickLargest(states.map(one => one.throughput_p50)),
})

function pickLargest(values: (number | null)[]): number | null {
  const known = values.filter(value => value !== null)
  return known.length > 0 ? Math.max(...known) : null
}
