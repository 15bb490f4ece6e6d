import { parseObject } from '../../base/json.ts'
import type { ActivityEntry, EndpointState, State } from '../../extensions/activity/entries.ts'

/** One attempt of a call, as the feed tells it. */
interface LiveAttempt {
  endpoint: string
  provider: string
  model: string
  at: string
  outcome: 'running' | 'failed' | 'answered'
  status: number | null
  error_type: string | null
  message: string | null
  latency: number | null
}

/** One call, as far as the feed has told it. Times in milliseconds. */
export interface LiveCall {
  id: string
  at: string
  startedAt: number
  state: 'running' | 'done' | 'refused'
  status: number | null
  error: string | null
  model: string
  provider: string
  latency: number | null
  time: number | null
  tokens: number
  cost: number | null
  key: string
  app: string
  attempts: LiveAttempt[]
  /** How many attempts there were in all: those of a past call are on its record alone. */
  tries: number
  /** The entry about its plan, as JSON: it is long, and few plans are looked at. */
  plan: string | null
}

/** An endpoint, with how often it was asked in each of the last seconds. */
export interface LiveEndpoint extends EndpointState {
  asked: number[]
}

/** Something that an operator should see. */
export interface LiveAlarm {
  at: string
  kind: 'bad' | 'warn' | 'good'
  text: string
}

/** How many calls, seconds and alarms are kept. */
const MOST_CALLS = 5_000
const MOST_SECONDS = 300
const MOST_ALARMS = 100

const PLANNED = '{"type":"call.planned"'
const ID = /"id":"([\w-]+)"/

/** What the feed has told so far: the calls, the endpoints, the last minutes. Bounded. */
export class Live {
  readonly calls = new Map<string, LiveCall>()
  readonly endpoints = new Map<string, LiveEndpoint>()
  readonly seconds: State[] = []
  readonly alarms: LiveAlarm[] = []
  lost = 0
  service: string | null = null
  /** Grows with each change: a view draws again when it has grown. */
  version = 0
  readonly #askedNow = new Map<string, number>()
  /** The running calls by the ids of their requests, which refusals have. */
  readonly #requests = new Map<string, string>()

  /** Takes in entries, each as JSON. */
  applyAll(batch: string[]): void {
    for (const json of batch) {
      const id = json.startsWith(PLANNED) ? ID.exec(json.slice(0, 300))?.[1] : undefined
      if (id === undefined) this.#applyJson(json)
      else this.#change(id, { plan: json })
    }
  }

  /** Takes in an entry of whatever gateway is there: what is no entry of a known kind is passed over. */
  #applyJson(json: string): void {
    const entry = parseObject(json)
    if (typeof entry?.type !== 'string' || typeof entry.at !== 'string') return
    try {
      this.apply(entry as never)
    } catch {
      this.#warn(entry.at, 'warn', `an entry was not understood: ${entry.type}`)
    }
  }

  /** Whether any call runs. */
  get isRunning(): boolean {
    for (const { state } of this.calls.values()) if (state === 'running') return true
    return false
  }

  /** Takes in an entry. */
  apply(entry: ActivityEntry): void {
    if (entry.type !== 'state' || !this.#isIdle(entry)) this.version += 1
    const handle = this.#handlers[entry.type] as ((entry: ActivityEntry) => void) | undefined
    handle?.(entry)
  }

  /** Whether nothing is to be drawn for a second: it is as idle as the one before. */
  #isIdle({ running_calls, finished, refused, endpoints }: State): boolean {
    const before = this.seconds.at(-1)
    const isSame = before?.running_calls === 0 && before.finished + before.refused === 0
    const isStill = running_calls === 0 && finished + refused === 0
    return isSame && isStill && endpoints.every(({ cooldown }) => cooldown === null)
  }

  /** Forgets the running calls: the server is gone, or the feed was lost. */
  forgetRunning(): void {
    for (const [id, { state }] of this.calls) if (state === 'running') this.calls.delete(id)
    this.#requests.clear()
    this.version += 1
  }

  /** Adds a call that has finished before, from its record. */
  addRecord(call: LiveCall): void {
    if (!this.calls.has(call.id)) this.calls.set(call.id, call)
    this.version += 1
  }

  readonly #handlers: {
    [Type in ActivityEntry['type']]?: (entry: Extract<ActivityEntry, { type: Type }>) => void
  } = {
    listening: entry => {
      this.service = `${entry.service_name} ${entry.version}`
    },
    'call.opened': ({ id, request_id, at, models, key_name, app }) => {
      if (request_id !== id) this.#requests.set(request_id, id)
      const call = createCall(id, at)
      call.model = models[0] ?? ''
      call.key = key_name ?? ''
      call.app = app ?? ''
      this.#add(call)
    },
    'call.planned': entry => this.#change(entry.id, { plan: JSON.stringify(entry) }),
    'attempt.started': ({ id, endpoint, provider, model, at }) => {
      this.#askedNow.set(endpoint, (this.#askedNow.get(endpoint) ?? 0) + 1)
      const call = this.calls.get(id)
      if (!call) return
      call.attempts.push({
        endpoint,
        provider,
        model,
        at,
        outcome: 'running',
        status: null,
        error_type: null,
        message: null,
        latency: null,
      })
      call.provider = provider
    },
    'attempt.failed': ({ id, endpoint, status, error_type, message, latency }) => {
      const attempt = this.calls
        .get(id)
        ?.attempts.findLast(one => one.endpoint === endpoint && one.outcome === 'running')
      if (attempt)
        Object.assign(attempt, { outcome: 'failed', status, error_type, message, latency })
    },
    'call.answering': ({ id, latency }) => {
      this.#change(id, { latency })
      const attempt = this.calls.get(id)?.attempts.findLast(({ outcome }) => outcome === 'running')
      if (attempt) attempt.outcome = 'answered'
    },
    'call.progress': ({ id, tokens, cost }) => this.#change(id, { tokens, cost }),
    'call.finished': entry => {
      this.#requests.delete(entry.request_id)
      if (!this.calls.has(entry.id)) this.#addPast(entry)
      const call = this.calls.get(entry.id)
      if (call) finishCall(call, entry)
    },
    'call.refused': ({ id, at, status, model, key_name, message }) => {
      const call = this.calls.get(this.#requests.get(id) ?? id) ?? createCall(id, at)
      this.#requests.delete(id)
      this.#add({
        ...call,
        ...{ state: 'refused', status, error: message, model: model ?? '', key: key_name ?? '' },
      })
    },
    'circuit.opened': ({ at, endpoint, reason, seconds_left }) => {
      this.#setCooldown(endpoint, { reason, seconds_left })
      this.#warn(at, 'bad', `${endpoint} cools down for ${seconds_left} s: ${reason}`)
    },
    'circuit.closed': ({ at, endpoint }) => {
      this.#setCooldown(endpoint, null)
      this.#warn(at, 'good', `${endpoint} is back`)
    },
    'limit.near': ({ at, account, name, share, period }) =>
      this.#warn(
        at,
        share >= 1 ? 'bad' : 'warn',
        `${account} ${name ?? ''} has spent or set aside ${Math.floor(share * 100)}% of its ${period ?? 'total'} limit`,
      ),
    'config.applied': ({ at, changed }) =>
      this.#warn(at, 'good', `the config was applied: ${changed.join(', ') || 'no change'}`),
    'config.rejected': ({ at, message }) =>
      this.#warn(at, 'bad', `a config was rejected: ${message}`),
    alarm: ({ at, message }) => this.#warn(at, 'warn', message),
    lost: ({ at, count }) => {
      this.lost += count
      this.#warn(at, 'warn', `${count} entries were lost: they came too fast`)
    },
    state: entry => this.#addSecond(entry),
  }

  /** Adds a call of which nothing was told but its end. */
  #addPast({
    id,
    at,
    generation_time,
  }: {
    id: string
    at: string
    generation_time: number | null
  }) {
    const startedAt = Date.parse(at) - (generation_time ?? 0)
    this.#add(createCall(id, new Date(startedAt).toISOString()))
  }

  #add(call: LiveCall): void {
    this.calls.delete(call.id)
    this.calls.set(call.id, call)
    if (this.calls.size <= MOST_CALLS) return
    // The oldest that has ended; the oldest of all if every call runs.
    let oldest: string | undefined
    for (const [id, { state }] of this.calls) {
      oldest ??= id
      if (state === 'running') continue
      oldest = id
      break
    }
    if (oldest !== undefined) this.calls.delete(oldest)
  }

  #change(id: string, change: Partial<LiveCall>): void {
    const call = this.calls.get(id)
    if (call) Object.assign(call, change)
  }

  #setCooldown(endpoint: string, cooldown: EndpointState['cooldown']): void {
    const known = this.endpoints.get(endpoint)
    if (known) known.cooldown = cooldown
  }

  #warn(at: string, kind: LiveAlarm['kind'], text: string): void {
    this.alarms.unshift({ at, kind, text })
    this.alarms.length = Math.min(this.alarms.length, MOST_ALARMS)
  }

  #addSecond(state: State): void {
    // Of too many refusals at once some are not told one by one.
    if (state.running_calls === 0 && this.isRunning) this.forgetRunning()
    this.seconds.push(state)
    if (this.seconds.length > MOST_SECONDS) this.seconds.shift()
    for (const endpoint of state.endpoints)
      this.endpoints.set(endpoint.endpoint, {
        ...endpoint,
        asked: this.endpoints.get(endpoint.endpoint)?.asked ?? [],
      })
    for (const [id, endpoint] of this.endpoints) {
      endpoint.asked.push(this.#askedNow.get(id) ?? 0)
      if (endpoint.asked.length > MOST_SECONDS) endpoint.asked.shift()
    }
    this.#askedNow.clear()
  }
}

function finishCall(call: LiveCall, entry: Extract<ActivityEntry, { type: 'call.finished' }>) {
  call.state = 'done'
  call.tries = entry.attempts
  call.status = entry.status
  call.error = entry.error_type
  call.model = entry.model
  call.latency = entry.latency
  call.time = entry.generation_time
  call.tokens = entry.tokens_completion
  call.cost = entry.total_cost
  call.provider = entry.provider_name ?? call.provider
  call.key = entry.key_name ?? ''
  call.app = entry.app ?? ''
}

/** Creates a call of which nothing is known but its beginning. */
export const createCall = (id: string, at: string): LiveCall => ({
  id,
  at,
  startedAt: Date.parse(at),
  state: 'running',
  status: null,
  error: null,
  model: '',
  provider: '',
  latency: null,
  time: null,
  tokens: 0,
  cost: null,
  key: '',
  app: '',
  attempts: [],
  tries: 0,
  plan: null,
})
