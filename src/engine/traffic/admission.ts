import { GatewayError } from '../../base/errors.ts'
import type { Events } from '../../base/events.ts'
import { readDescriptorLimit, readMemoryBytes } from '../../base/machine.ts'
import type { Config } from '../../config.ts'

/** What is used up when a call is refused for the sake of those that run. */
type Overload = 'in_flight' | 'memory' | 'loop_lag' | 'descriptors'

declare module '../../base/events.ts' {
  interface EventMap {
    /** A call, or a body, was refused for the sake of those that run. */
    'call.shed': { reason: Overload }
    /** The first call is refused for this reason after a time in which none was. */
    'overload.began': { reason: Overload }
    /** No call has been refused for a while; so many were. */
    'overload.ended': { refused: number }
  }
}

const MIB = 1024 * 1024

/**
 * How many times the bytes of a body or an answer are in memory at once: as they came, as a text, as
 * values, and as what goes out again.
 */
const COPIES = 4

/** The same of an answer that goes out: as a text, and as what the client has not taken yet. */
const COPIES_SENT = 2

/**
 * A body of this size takes no more than what each call has anyway: it is not worth counting, nor
 * releasing before the collector.
 */
export const SMALL_BODY = 64 * 1024

/** What a call with a small body and a small answer takes, at most. */
const CALL_BYTES = 128 * 1024

/** The largest default of `limits.memory`, and the share of the machine's memory that it is. */
const DEFAULT_MEMORY_MIB = 512
const SHARE_OF_MACHINE = 1 / 4

/** The share of the memory that calls leave to those who manage the gateway. */
const RESERVE = 1 / 16

/** In milliseconds: newcomers are refused while others have waited for longer for their turn. */
const LONGEST_WAIT = 2_000

/** In milliseconds: an overload is over when no call has been refused for so long. */
const CALM = 5_000

/**
 * In bytes: after so many in large bodies and answers were given back, their memory is collected if
 * the process has grown by so many since it was least. A collection takes some 40 ms, and often the
 * engine's own ones were enough.
 */
const COLLECTED_AT = { givenBack: 128 * MIB, growth: 64 * MIB }

/** What admission needs from the gateway. */
interface AdmissionWorld {
  readLimits(): Pick<Config['limits'], 'memory' | 'in_flight'>
  events: Pick<Events, 'publish'>
  /** Collects what large bodies have left: the collector does not see how much texts take. */
  collect?: () => void
  /** Returns the bytes of memory that the process has. */
  readResident?: () => number
  turns?: TurnWorld
}

/**
 * Decides whether another call fits beside those that run: by the calls in flight, by the bytes that
 * their bodies and answers take, and by how long calls wait for their turn. What does not fit is
 * refused before its body is read. Counters only: a call that is admitted costs next to nothing.
 */
export class Admission {
  readonly calls: Supply
  readonly memory: Supply
  readonly turns: Turns
  readonly #answers: LargeAnswers
  readonly #events: Pick<Events, 'publish'>
  readonly #collect: () => void
  readonly #readResident: () => number
  /** The bytes that wait for readers, who may never take them. */
  #unread = 0
  #leastResident = 0
  #released = 0
  #refused = 0
  #refusedAt = 0
  #patientUntil = 0

  constructor({
    readLimits,
    events,
    collect = () => Bun.gc(true),
    readResident = () => process.memoryUsage.rss(),
    turns,
  }: AdmissionWorld) {
    const defaults = readDefaults()
    const readMemory = () => (readLimits().memory ?? defaults.memory) * MIB
    this.memory = new Supply(readMemory, RESERVE)
    this.calls = new Supply(
      () =>
        readLimits().in_flight ?? Math.min(defaults.calls, Math.floor(readMemory() / CALL_BYTES)),
    )
    this.turns = new Turns(turns)
    this.#answers = new LargeAnswers(this.memory)
    this.#events = events
    this.#collect = collect
    this.#readResident = readResident
  }

  /**
   * Lets calls wait for their turn, however long, for so many milliseconds: a process that is new, or
   * shares the machine with a new one, is slow for a moment and not overloaded.
   */
  bePatient(milliseconds: number): void {
    this.#patientUntil = performance.now() + milliseconds
  }

  /** Finds why no call of this key is admitted now, whatever its body; null if one may be. */
  findOverload(key: string): Overload | null {
    if (this.turns.wait > LONGEST_WAIT && performance.now() >= this.#patientUntil) return 'loop_lag'
    return this.calls.has(key, 1) ? null : 'in_flight'
  }

  /** Finds what a key without any calls would be refused for now; null if it would be admitted. */
  findSaturation(): Overload | null {
    return this.findOverload(NEWCOMER) ?? (this.memory.has(NEWCOMER, 1) ? null : 'memory')
  }

  /**
   * Admits a call of a key with a body of so many bytes, NaN if that is not known. Throws 503 with
   * what is used up. The call waits for its turn before it goes on: `pass.turn`.
   */
  admit(key: string, bodyBytes: number): Pass {
    // A call that is small takes none of the memory by itself, but readers that take nothing do.
    const overload = this.findOverload(key) ?? (this.isFullOfUnread ? 'memory' : null)
    if (overload) throw this.refuse(overload)
    this.calls.add(key, 1)
    const pass = new Pass(this, key)
    try {
      pass.take(bodyBytes)
    } catch (full) {
      pass.end()
      throw full
    }
    pass.turn = this.turns.enter()
    return pass
  }

  /** Takes memory for the body of a request that is no call. Throws 503; returns what gives it back. */
  admitBody(bodyBytes: number): () => void {
    const bytes = countCopies(bodyBytes)
    if (bytes === 0) return RELEASE_NOTHING
    if (!this.memory.takeReserved(MANAGEMENT, bytes)) throw this.refuse('memory')
    return () => this.giveBack(MANAGEMENT, bytes)
  }

  /** Begins a large answer for a call of a key. It is to be ended, however its call ends. */
  beginAnswer(key: string, owner: object): LargeAnswer {
    return this.#answers.begin(key, owner)
  }

  /**
   * Resolves once there is memory for so many bytes of an answer, with their copies. It is not read
   * on before.
   */
  growAnswer(answer: LargeAnswer, answerBytes: number, copies = COPIES): Promise<void> {
    return this.#answers.grow(answer, answerBytes * copies)
  }

  /** Gives back the memory of an answer. */
  endAnswer(answer: LargeAnswer): void {
    const bytes = this.#answers.end(answer)
    if (bytes > 0) this.giveBack(answer.key, bytes)
  }

  /** Gives back the memory of bodies or answers. */
  giveBack(key: string, bytes: number): void {
    this.memory.giveBack(key, bytes)
    this.#released += bytes
    if (this.#released >= COLLECTED_AT.givenBack) {
      this.#released = 0
      this.#collectGrowth()
    }
    // Those that come next find the memory collected.
    this.#answers.wake()
  }

  // The first collection tells how much the process needs.
  #collectGrowth(): void {
    if (this.#readResident() - this.#leastResident < COLLECTED_AT.growth) return
    this.#collect()
    const resident = this.#readResident()
    this.#leastResident = Math.min(this.#leastResident || resident, resident)
  }

  /** Counts bytes that wait for a reader. They are there already, whatever is left. */
  holdUnread(key: string, bytes: number): void {
    this.memory.add(key, bytes)
    this.#unread += bytes
  }

  /** A reader has taken so many bytes, or has left. */
  giveBackUnread(key: string, bytes: number): void {
    this.memory.giveBack(key, bytes)
    this.#unread -= bytes
    this.#answers.wake()
  }

  /** Whether the memory is used up, also by what waits for readers. */
  get isFullOfUnread(): boolean {
    return this.#unread > 0 && this.memory.used >= this.memory.limit
  }

  /** Counts a refusal, and returns the error to throw. */
  refuse(reason: Overload): GatewayError {
    if (this.#refused === 0) this.#events.publish('overload.began', { reason })
    this.#refused += 1
    this.turns.refuse()
    this.#refusedAt = performance.now()
    this.#events.publish('call.shed', { reason })
    return REFUSALS[reason]
  }

  /** Looks whether an overload is over. To be called now and then. */
  look(now = performance.now()): void {
    if (this.#refused === 0 || now - this.#refusedAt < CALM) return
    this.#events.publish('overload.ended', { refused: this.#refused })
    this.#refused = 0
  }
}

const createRefusal = (overload: Overload, message: string) =>
  new GatewayError('unavailable', message, { retryAfter: 1, metadata: { overload } })

// Made once: an error takes as long as all the rest of a refusal.
const REFUSALS: Record<Overload, GatewayError> = {
  in_flight: createRefusal('in_flight', 'The gateway is overloaded: too many calls are in flight'),
  memory: createRefusal('memory', 'The gateway is overloaded: running calls take too much memory'),
  loop_lag: createRefusal('loop_lag', 'The gateway is overloaded: calls wait too long for a turn'),
  descriptors: createRefusal('descriptors', 'The gateway has too many connections'),
}

/** A key that has taken nothing. No hash of a key looks like it. */
const NEWCOMER = ''

/** Whose bodies and answers those of management are. No hash of a key looks like it. */
export const MANAGEMENT = 'management'

const RELEASE_NOTHING = () => undefined

const countCopies = (bytes: number): number => (bytes > SMALL_BODY ? bytes * COPIES : 0)

/** What one call holds of what all calls share, from its admission to its end. */
export class Pass {
  /** The promise of the call's turn; null if it may go on at once. */
  turn: Promise<void> | null = null
  /** Who makes the call. */
  readonly key: string
  readonly #admission: Admission
  #bytes = 0
  #isOver = false

  constructor(admission: Admission, key: string) {
    this.#admission = admission
    this.key = key
  }

  /** Takes memory for a body of so many bytes. Throws 503 if that is not there, and takes nothing. */
  take(bodyBytes: number): void {
    const bytes = countCopies(bodyBytes) - this.#bytes
    if (!(bytes > 0)) return
    if (!this.#admission.memory.take(this.key, bytes)) throw this.#admission.refuse('memory')
    this.#bytes += bytes
  }

  /** Holds the memory of an answer as it goes out: so many bytes, which are there already. */
  hold(answerBytes: number): void {
    const bytes = answerBytes * COPIES_SENT
    this.#admission.memory.add(this.key, bytes)
    this.#bytes += bytes
  }

  /** The call is over, or was never made. */
  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#admission.calls.giveBack(this.key, 1)
    if (this.#bytes > 0) this.#admission.giveBack(this.key, this.#bytes)
  }
}

// A call needs a connection to its client and one to its provider.
function readDefaults(): { memory: number; calls: number } {
  const memory = Math.floor((readMemoryBytes() * SHARE_OF_MACHINE) / MIB)
  return {
    memory: Math.max(16, Math.min(memory, DEFAULT_MEMORY_MIB)),
    calls: Math.max(1, Math.floor(readDescriptorLimit() / 2)),
  }
}

/** In milliseconds: how long a turn of the event loop should be at most. */
const LONG_TURN = 20

/** In milliseconds: in a turn that was longer the process stood still. The rest of it is no load. */
const STANDSTILL = 500

/** How many calls begin in one turn: at first, at least and at most. */
const FIRST = 32
const FEWEST = 4
const MOST = 1_024

/** By how many calls more a turn has, after one that was short. */
const GROWTH = 8

/** A call begins for each that is refused in a turn, which make it long as well; at most so many. */
const MOST_FOR_REFUSALS = 256

/** What turns need from the process; tests replace it. */
interface TurnWorld {
  /** Steady milliseconds. */
  now(): number
  /** Calls the function once all that is ready in this turn of the event loop has been done. */
  onTurnEnd(next: () => void): void
}

const EVENT_LOOP: TurnWorld = {
  now: () => performance.now(),
  onTurnEnd: next => void setImmediate(next),
}

/**
 * Lets only so many calls begin in one turn of the event loop that the turn stays short: `/health`,
 * streams that run and requests of management get their turn in between. The other calls wait in
 * the order in which they came. How many begin in a turn follows how long turns are.
 */
export class Turns {
  readonly #world: TurnWorld
  readonly #waiting: { begin: () => void; since: number }[] = []
  /** The index of the first that waits: a list that is cut off at its front is copied each time. */
  #first = 0
  #size = FIRST
  #left = FIRST
  #refused = 0
  #startedAt = 0
  /** How long the turns before this one were, without the time for which the process stood still. */
  #passed = 0
  #isCounting = false

  constructor(world: TurnWorld = EVENT_LOOP) {
    this.#world = world
  }

  /** How many wait. */
  get size(): number {
    return this.#waiting.length - this.#first
  }

  /** How long the first of those that wait has waited, in milliseconds; 0 if none does. */
  get wait(): number {
    const first = this.#waiting[this.#first]
    return first ? this.#now - first.since : 0
  }

  get #now(): number {
    return this.#passed + Math.min(this.#world.now() - this.#startedAt, STANDSTILL)
  }

  /** Returns null if a call may begin now, and a promise of its turn otherwise. */
  enter(): Promise<void> | null {
    if (!this.#isCounting) this.#count()
    if (this.#left > 0 && this.size === 0) {
      this.#left -= 1
      return null
    }
    return new Promise(begin => this.#waiting.push({ begin, since: this.#now }))
  }

  /** Notes that a call is refused: however many are, those that wait must not wait for ever. */
  refuse(): void {
    this.#refused += 1
    if (!this.#isCounting) this.#count()
  }

  #count(): void {
    this.#isCounting = true
    this.#startedAt = this.#world.now()
    this.#world.onTurnEnd(this.#startNext)
  }

  readonly #startNext = (): void => {
    const length = this.#world.now() - this.#startedAt
    this.#passed += Math.min(length, STANDSTILL)
    this.#adapt(length)
    this.#left = Math.max(this.#size, Math.min(MOST_FOR_REFUSALS, this.#refused))
    this.#refused = 0
    this.#isCounting = false
    if (this.size === 0) return
    this.#count()
    for (; this.#left > 0 && this.size > 0; this.#left--) this.#beginFirst()
  }

  #beginFirst(): void {
    const first = this.#waiting[this.#first++]
    if (this.#first === this.#waiting.length || this.#first > MOST) {
      this.#waiting.splice(0, this.#first)
      this.#first = 0
    }
    first?.begin()
  }

  #adapt(length: number): void {
    if (length > LONG_TURN) this.#size = Math.max(FEWEST, this.#size >> 1)
    else if (this.size > 0) this.#size = Math.min(MOST, this.#size + GROWTH)
  }
}

/** How much of what is left a key may have taken: so there is always something for the next one. */
const GREED = 9

/**
 * Something that running calls use up and give back: places, or bytes. A key alone may take nine
 * tenths of it, two keys not quite half of it each, and so on: none may hold more than nine times
 * what is left. A key that held all of it gives back as its calls end, so the shares become equal.
 */
export class Supply {
  readonly #readLimit: () => number
  readonly #reserve: number
  readonly #taken = new Map<string, number>()
  #used = 0

  /** `reserve` is the share that calls leave to those who manage the gateway. */
  constructor(readLimit: () => number, reserve = 0) {
    this.#readLimit = readLimit
    this.#reserve = reserve
  }

  /** How much is in use. */
  get used(): number {
    return this.#used
  }

  /** How much there is. */
  get limit(): number {
    return this.#readLimit()
  }

  /** Takes so much for a key. Returns false, and takes nothing, if that is not its share. */
  take(key: string, amount: number): boolean {
    if (!this.has(key, amount)) return false
    this.add(key, amount)
    return true
  }

  /** Whether a key may take so much. What is larger than the whole supply is taken alone. */
  has(key: string, amount: number): boolean {
    if (this.#used === 0) return true
    const limit = this.#readLimit()
    const left = limit - Math.ceil(limit * this.#reserve) - this.#used - amount
    return left >= 0 && (this.#taken.get(key) ?? 0) + amount <= Math.max(GREED * left, 1)
  }

  /** Takes so much of the whole supply, its reserve included. Returns false if it is not there. */
  takeReserved(key: string, amount: number): boolean {
    if (this.#used > 0 && this.#used + amount > this.#readLimit()) return false
    this.add(key, amount)
    return true
  }

  /** Takes so much, whatever is left: it is there already. */
  add(key: string, amount: number): void {
    this.#used += amount
    this.#taken.set(key, (this.#taken.get(key) ?? 0) + amount)
  }

  /** Gives back what was taken. */
  giveBack(key: string, amount: number): void {
    this.#used -= amount
    const rest = (this.#taken.get(key) ?? 0) - amount
    if (rest > 0) this.#taken.set(key, rest)
    else this.#taken.delete(key)
  }
}

/** What one answer takes of the memory, with its copies. */
export interface LargeAnswer {
  key: string
  /** The call that it is for: one may have several at once, such as turns and what is kept of all. */
  owner: object
  bytes: number
}

interface Waiting {
  answer: LargeAnswer
  bytes: number
  enter(): void
}

/**
 * Large answers take memory as they turn out to be large. One for which there is none is not read
 * on until there is: its provider waits. The call that has most is always read on, so that each ends
 * some time.
 */
export class LargeAnswers {
  readonly #memory: Supply
  readonly #open = new Set<LargeAnswer>()
  readonly #waiting = new Set<Waiting>()
  readonly #byOwner = new Map<object, number>()

  constructor(memory: Supply) {
    this.#memory = memory
  }

  /** Begins an answer for a call of a key, which takes nothing yet. */
  begin(key: string, owner: object): LargeAnswer {
    const answer = { key, owner, bytes: 0 }
    this.#open.add(answer)
    return answer
  }

  /** Resolves once there is memory for so many bytes of the answer. It has it until its end. */
  grow(answer: LargeAnswer, bytes: number): Promise<void> {
    const isBehind = !this.#byOwner.has(answer.owner) && this.#waiting.size > 0
    if (isBehind || !this.#fits(answer, bytes))
      return new Promise(enter => this.#waiting.add({ answer, bytes, enter }))
    this.#take(answer, bytes)
    return Promise.resolve()
  }

  /** The answer is over, and waits no longer. Returns how many bytes are to be given back. */
  end(answer: LargeAnswer): number {
    this.#open.delete(answer)
    for (const waiting of this.#waiting) if (waiting.answer === answer) this.#enter(waiting)
    const { bytes, owner } = answer
    answer.bytes = 0
    const rest = (this.#byOwner.get(owner) ?? 0) - bytes
    if (rest > 0) this.#byOwner.set(owner, rest)
    else this.#byOwner.delete(owner)
    return bytes
  }

  /**
   * Lets those go on for which there is memory now. One that has none yet waits behind those before
   * it; one that grows does not, as it gives back more when it ends.
   */
  wake(): void {
    let isBehind = false
    for (const waiting of this.#waiting) {
      const hasSome = this.#byOwner.has(waiting.answer.owner)
      if ((isBehind && !hasSome) || !this.#fits(waiting.answer, waiting.bytes)) isBehind = true
      else this.#enter(waiting)
    }
  }

  #enter(waiting: Waiting): void {
    this.#waiting.delete(waiting)
    this.#take(waiting.answer, waiting.bytes)
    waiting.enter()
  }

  #take(answer: LargeAnswer, bytes: number): void {
    const more = bytes - answer.bytes
    if (more <= 0 || !this.#open.has(answer)) return
    this.#memory.add(answer.key, more)
    answer.bytes = bytes
    this.#byOwner.set(answer.owner, (this.#byOwner.get(answer.owner) ?? 0) + more)
  }

  #fits(answer: LargeAnswer, bytes: number): boolean {
    const { used, limit } = this.#memory
    if (used === 0 || used + bytes - answer.bytes <= limit) return true
    const own = this.#byOwner.get(answer.owner) ?? 0
    for (const others of this.#byOwner.values()) if (others > own) return false
    return true
  }
}
