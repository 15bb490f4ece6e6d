import type { Endpoint } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { Cancellation } from '../kernel/cancellation.ts'
import type { Receipt } from '../language/usage.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Amounts, HeldCall, Hold, Need, Word } from '../ledger/ledger.ts'
import type { Policy } from '../policy/effective.ts'
import type { Begun } from './attempt.ts'
import type { Filtering } from './filters/filtering.ts'
import type { Meter } from './kinds.ts'
import { type Candidates, type Plan, planTo, unordered } from './plan.ts'

/** One try at one endpoint. Latency in whole milliseconds; a status of null means that no answer came. */
export interface Attempt {
  endpoint: Endpoint
  latency: number
  status: number | null
  /** Why it gave nothing; null where an answer began. */
  error: GatewayError | null
}

/** How a run ended. Times in steady milliseconds. */
export interface Ending {
  /** Why it has failed; null where it has not. */
  error: GatewayError | null
  ended: number
  /** Whether its client had left by then. */
  cancelled: boolean
}

/** What a run begins with. */
interface Beginning<K extends Kind> {
  actor: Actor
  kind: K
  call: Work[K]['call']
  policy: Policy
  created: Date
  /** Steady milliseconds. */
  began: number
  /** Whether nothing is to be counted, set aside, remembered, recorded or sent. */
  isDry?: boolean
}

const NOTHING = () => undefined

/**
 * One call of a client while it lives: who asks for what, what holds for it, and the steps that it has taken. It is admitted once, has one
 * id, and ends once, however many steps it takes.
 */
export class Run<K extends Kind = Kind> {
  readonly actor: Actor
  readonly kind: K
  /** What is asked for, as content filters leave it. */
  call: Work[K]['call']
  /** What the actor's calls are held to. */
  policy: Policy
  readonly isDry: boolean
  /** What content filters see in it; null where nothing looks. */
  filtering: Filtering | null = null
  /** Why it is recorded and not sent: content filters refuse it. */
  blocked: GatewayError | null = null
  /** The last one is the one that runs. */
  readonly steps: Step<K>[] = []
  /** Ends the run from outside: the client left, or the gateway stops. */
  readonly cancellation = new Cancellation()
  /** What was fetched for it, by URL, as data URLs. */
  readonly media = new Map<string, string>()
  readonly created: Date
  /** Steady milliseconds: when it began, and when its first part came. */
  readonly began: number
  firstPart: number | null = null
  /** Resolves when the step is taken that is just being taken after another. */
  taking: Promise<void> | null = null
  /** Null until it has ended. */
  ending: Ending | null = null
  /** Gives its place among the rate limits back. */
  leave: () => void = NOTHING
  /** Takes it from the list of running calls. */
  unlist: () => void = NOTHING
  #createdAt: string | undefined

  constructor({ actor, kind, call, policy, created, began, isDry = false }: Beginning<K>) {
    this.actor = actor
    this.kind = kind
    this.call = call
    this.policy = policy
    this.created = created
    this.began = began
    this.isDry = isDry
  }

  /** When it began, in ISO 8601: it is written down more than once. */
  get createdAt(): string {
    this.#createdAt ??= this.created.toISOString()
    return this.#createdAt
  }

  /** The step that runs, or ran last. */
  get step(): Step<K> | undefined {
    return this.steps.at(-1)
  }

  /** Who was to be asked for the last step, or nobody. */
  get plan(): Plan<K> {
    return this.step?.route ?? planTo([])
  }

  /** The tries of all steps. */
  get attempts(): Attempt[] {
    return this.steps.flatMap(({ attempts }) => attempts)
  }

  /** Whether anybody was asked, or would have been but for content filters: then it is recorded, however it ends. */
  get isRecorded(): boolean {
    return this.blocked !== null || this.steps.some(step => step.isSent)
  }

  /** What the running step has come to, for a process that comes after this one; null until an answer begins. */
  get progress(): { held: HeldCall; spent: bigint } | null {
    const step = this.step
    return step?.held && step.soFar ? { held: step.held, spent: step.soFar() } : null
  }

  /** Ends when the client does. The signal outlives the call, so it holds nothing of it but what it cancels. */
  follow(signal: AbortSignal): void {
    const { cancellation } = this
    if (signal.aborted) cancellation.cancel(clientLeft())
    else signal.addEventListener('abort', () => cancellation.cancel(clientLeft()), { once: true })
  }

  /** Gives back what was taken for it, but for money: it runs no more. */
  forget(): void {
    this.unlist()
    this.leave()
  }
}

/** One turn of a model within a run: what is asked, of whom, what is set aside for it, and what it came to. */
export class Step<K extends Kind = Kind> {
  readonly run: Run<K>
  /** From 1. */
  readonly number: number
  readonly call: Work[K]['call']
  /** Who may serve it; null until that is known. */
  candidates: Candidates<K> | null = null
  /** Who is asked, in order; null until they are put in order. */
  plan: Plan<K> | null = null
  /** What it may come to, and what limits let it have. */
  need: Need | null = null
  amounts: Amounts | null = null
  hold: Hold | null = null
  /** What outlives the process of it; null where nothing is set aside. */
  held: HeldCall | null = null
  word: Word | null = null
  readonly attempts: Attempt[] = []
  /** Whether it has gone out. */
  isSent = false
  /** Its answer, once that has begun. */
  begun: Begun<K> | null = null
  meter: Meter<Work[K]['part']> | null = null
  /** What it has come to by now, in nano-dollars; null until an answer begins. */
  soFar: (() => bigint) | null = null
  /** What it came to in the end. */
  receipt: Receipt | null = null
  /** Whether that was charged. */
  isCharged = false

  constructor(run: Run<K>, call: Work[K]['call']) {
    this.run = run
    this.call = call
    this.number = run.steps.push(this)
  }

  get isDry(): boolean {
    return this.run.isDry
  }

  /** Whether any limit applies to it. */
  get isBounded(): boolean {
    return this.run.policy.bounds.length > 0
  }

  /** The plan, or who would have been in one where none was made. */
  get route(): Plan<K> | null {
    return this.plan ?? (this.candidates && unordered(this.candidates))
  }
}

const CLIENT_CLOSED_REQUEST = 499

/** The client is no longer there to be answered. */
export const clientLeft = () =>
  new GatewayError('unmapped', 'The client closed the request', { status: CLIENT_CLOSED_REQUEST })

/** Whether the run ended because its client left. */
export const isAbandoned = ({ cancellation }: Run): boolean =>
  cancellation.reason?.status === CLIENT_CLOSED_REQUEST
