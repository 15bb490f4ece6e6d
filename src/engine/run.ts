import { Cancellation } from '../base/cancellation.ts'
import { renderTime } from '../base/clock.ts'
import { GatewayError } from '../base/errors.ts'
import type { PeekedSequence } from '../base/iterate.ts'
import type { Router } from '../language/routing.ts'
import type { Receipt } from '../language/usage.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import type { CallBound } from '../limits/call-budgets.ts'
import type { Counters, Grant } from '../limits/counters.ts'
import type { Amounts, CostEstimate, HeldCall, JournalEntry, Subaccount } from '../limits/ledger.ts'
import type { Policy } from '../limits/policy-world.ts'
import type { RateGrant } from '../limits/rates.ts'
import type { BatchResult, Generation } from '../observability/generations/store.ts'
import type { OutboxMessage } from '../observability/outbox.ts'
import type { TranscriptOutput } from '../observability/transcripts.ts'
import type { Actor } from '../resources/actor.ts'
import type { Endpoint, Model } from '../resources/models/catalog.ts'
import type { PooledCredential } from '../resources/providers/provider.ts'
import type { Media, UpstreamRequest } from '../translation/protocols/protocol.ts'
import type { Leftover } from './attempt/leftover.ts'
import type { Filtering } from './filtering.ts'
import type { KindOfWork, Meter } from './kind.ts'
import type {
  Candidates,
  PipelineStage,
  Plan,
  RouterDecision,
  RouterInputs,
} from './plan/candidates.ts'
import type { KeptAnswer } from './traffic/response-cache.ts'
import type { Permit } from './traffic.ts'
import type { Tree, TreeTurn } from './tree.ts'
import type { InferenceWorld } from './world.ts'

/**
 * One try at one endpoint. Latency in whole milliseconds; the status is null if no response came.
 */
export interface Attempt {
  endpoint: Endpoint
  latency: number
  status: number | null
  /** The provider's own id of the request; null if it sent none. */
  request_id: string | null
  /** Why it failed; null if an answer began. */
  error: GatewayError | null
  /** When its request was sent, in steady milliseconds; null before. */
  sentAt: number | null
  /** When its answer began or it failed, on the same clock; null before. */
  decidedAt: number | null
  /** Which of its provider's credentials it is sent with, where that has several. */
  credential?: PooledCredential
  /** Whether a connection has taken its prompt, and its provider has not failed by itself since. */
  isTaken: boolean
  /** The parameters and tools that were left out, as the endpoint has none of them. */
  ignored?: string[]
  /** The most tokens that it may have, if that is fewer than asked for: a limit pays for no more. */
  maxTokens?: number
}

/** A request that a provider has received and not yet answered. */
export interface SentRequest<K extends Kind = Kind> {
  endpoint: Endpoint
  /** What came before the first part that the caller can use: a count, perhaps. */
  received: AnswerPart<K>[]
  /** The answer that may still come; null if its provider does not charge for what it stops. */
  leftover: Leftover<AnswerPart<K>> | null
}

/** What is set aside for the slower one of two endpoints that are tried side by side. */
export interface Outrun {
  run: Run
  /** Its number in the ledger: a step of the call, beside the one that it belongs to. */
  number: number
  grant: Grant | null
  journalEntry: JournalEntry | null
  /** What the slower one costs; null if nothing is to be paid, or before that is known. */
  receipt: Receipt | null
  /** The model of the slower one, once it is to be paid. */
  model?: string
  isSettled: boolean
  isCharged: boolean
}

/** One use of a tool that the gateway runs itself, as receipts and records have it. */
export interface RecordedUse {
  /** The tool, and what the client called it; null for an unknown function. */
  offered: { tool: { name: string }; request: { type: string } } | null
  call: { name: string }
  /** The turn of the model that asked for it, from 1; 0 if that was before the first. */
  turn: number
  /** Null if it did not run. */
  invocation: UseOfTool | null
  result: { isError: boolean; cost?: bigint } | null
  /** Milliseconds. */
  latency: number
  error: GatewayError | null
}

/** A use of a tool that runs, and may make calls within the call that it is part of. */
interface UseOfTool {
  run: Run
  /** The function that the model called. */
  name: string
}

/** The gateway's own tools in one call, and their uses. */
export interface UsedTools {
  readonly uses: RecordedUse[]
  /** Lists the tools that the call asks for, as the client named them, and what they did. */
  listTools(): { name: string; functions: string[]; uses: RecordedUse[]; models: string[] }[]
}

/** What the uses of tools in one turn cost. */
interface PaidUses {
  journalEntry: JournalEntry | null
  receipt: Receipt | null
  isCharged: boolean
}

/** Gathers what is answered, where the content of a call is kept. */
interface AnswerGatherer {
  /** Whether more has come than is ever kept. */
  readonly isTooLarge: boolean
  read(parts: AnswerPart<Kind>[]): void
  /** Returns what was answered so far. */
  render(): TranscriptOutput
}

/** How a run ended. Times in steady milliseconds. */
export interface RunEnding {
  /** Why it failed; null if it did not. */
  error: GatewayError | null
  endedAt: number
  /** Whether its client had left by then. */
  cancelled: boolean
}

/** What a run is created with. */
interface RunOptions<K extends Kind> {
  actor: Actor
  kind: K
  call: Work[K]['call']
  policy: Policy
  created: Date
  /** Steady milliseconds. */
  startedAt: number
  /** Whether nothing may be counted, set aside, remembered, recorded or sent. */
  isDry?: boolean
  /** The use of a tool that makes the call; absent for the call of a client. */
  within?: UseOfTool
}

const doNothing = () => undefined
const NO_EXTENSIONS: readonly Extension[] = []

/**
 * One call of a client while it lives: its actor, its policy and its steps. It is admitted once,
 * has one id, and ends once, however many steps it takes.
 */
export class Run<K extends Kind = Kind> {
  readonly actor: Actor
  readonly kind: K
  /** The call as content filters leave it. */
  call: Work[K]['call']
  /** The limits and rules of the actor's calls. */
  policy: Policy
  readonly isDry: boolean
  /** What it has beside what all runs have, in the order of the list: nothing for almost all. */
  extensions: readonly Extension[]
  /** The content filters and their findings; null if the policy has none. */
  filtering: Filtering | null
  /** Why the call is recorded but not sent: content filters block it. */
  blocked: GatewayError | null = null
  /** The last one is the current one. */
  readonly steps: Step<K>[] = []
  /** The current step, or the last one. */
  step: Step<K> | undefined = undefined
  /** Ends the run from outside: the client left, or the gateway stops. */
  readonly cancellation = new Cancellation()
  /** Gathers what is answered; null unless the content of the call is to be kept. */
  transcript: AnswerGatherer | null = null
  /** The answer that is given again instead of asking anyone; null for almost all. */
  replayed: KeptAnswer | null = null
  /** What plugins did with the call as a whole, for a caller who asks how it was routed. */
  readonly pluginStages: PipelineStage[] = []
  /** The gateway's own tools and their uses; null if the call asks for none. */
  toolLoop: UsedTools | null = null
  /** The uses of tools before the first turn, as plugins asked for them. */
  readonly openingUses: RecordedUse[] = []
  /** What the uses of tools cost, by turn; null if they are free. */
  toolMoney: PaidUses[] | null = null
  /** The use of a tool of another run that makes this call; null for the call of a client. */
  readonly within: UseOfTool | null
  /** The calls that uses of its tools make, in the order in which they began. */
  readonly inner: Run[] = []
  /** Watches the answer for those who are told of the call; null if nobody is. */
  watcher: Watcher | null = null
  /** Resolves when all that this run cost is charged, if it is inside another one. */
  closing: Promise<void> | null = null
  /** Renders what came of it, to be written with its record; null for what is no line of a batch. */
  renderResult: (() => Promise<BatchResult | null>) | null = null
  readonly created: Date
  /** Steady milliseconds: when the run began, and when its first part arrived. */
  readonly startedAt: number
  firstPartAt: number | null = null
  /**
   * Resolves when the step that follows the current one has begun or failed; null if none is
   * pending.
   */
  pendingStep: Promise<void> | null = null
  /** Whether a job goes on with its work, and with the money that is set aside for it. */
  isHandedOver = false
  /** Null until the run has ended. */
  ending: RunEnding | null = null
  /** What it was admitted with, until its first step takes that; null before and after. */
  grant: Grant | null = null
  /** What it has of the rates of guardrails until it ends; null for almost all. */
  rateGrant: RateGrant | null = null
  /** What bounds its end user, tags and models, and the accounts of those; null for almost all. */
  callBounds: CallBound[] | null = null
  subaccounts: Subaccount[] | null = null
  /** What says that it, and what runs inside it, is on record in them; null for almost all. */
  closers: (() => void)[] | null = null
  /** The budget of all turns within it and the call it is part of; null for one of one turn. */
  tree: Tree | null
  /** Its place among large answers, once it has asked for one: what gives it back. */
  room: Promise<() => void> | null = null
  /** Gives back the memory of its large answers; null if it has none. */
  freeMemory: (() => void) | null = null
  /** Removes it from the list of running calls. */
  unlist: () => void = doNothing
  #createdAt: string | undefined
  #media: Map<string, string> | undefined
  #numbers = 0

  constructor(options: RunOptions<K>) {
    const { actor, kind, call, policy, created, startedAt, isDry = false, within = null } = options
    this.actor = actor
    this.kind = kind
    this.call = call
    this.policy = policy
    this.created = created
    this.startedAt = startedAt
    this.isDry = isDry
    this.within = within
    this.tree = within?.run.tree ?? null
    this.filtering = within?.run.filtering ?? null
    this.extensions = within?.run.extensions ?? NO_EXTENSIONS
  }

  /** The media that were fetched for the call, as data URLs by their URL. */
  get media(): Map<string, string> {
    this.#media ??= this.within?.run.media ?? new Map()
    return this.#media
  }

  /** How many uses of tools this run is inside: 0 for the call of a client. */
  get depth(): number {
    return this.within ? this.within.run.depth + 1 : 0
  }

  /** When the run began, in ISO 8601. Cached, since it is written more than once. */
  get createdAt(): string {
    this.#createdAt ??= renderTime(this.created)
    return this.#createdAt
  }

  /** The plan of the last step; empty if there is none. */
  get plan(): Plan<K> {
    return this.step?.effectivePlan ?? createPlan([])
  }

  /** The attempts of all steps. */
  get attempts(): Attempt[] {
    return this.steps.flatMap(({ attempts }) => attempts)
  }

  /**
   * Whether an endpoint was tried, or would have been but for content filters, or a tool was used or
   * paid: then the run is recorded, however it ends.
   */
  get needsRecord(): boolean {
    const isPaid = this.toolMoney?.some(({ isCharged }) => isCharged) ?? false
    const hasUses = this.toolLoop !== null && this.toolLoop.uses.length > 0
    return isPaid || hasUses || this.blocked !== null || this.steps.some(step => step.isSent)
  }

  /** Whether no provider has received its current step yet. */
  get isUnconnected(): boolean {
    const { step } = this
    return !step?.answer && (step?.unanswered.length ?? 0) === 0
  }

  /**
   * What the current step has cost so far, for recovery after a crash; null until an answer begins.
   */
  get progress(): { held: HeldCall; spent: bigint } | null {
    const step = this.step
    return step?.heldCall && step.spentSoFar
      ? { held: step.heldCall, spent: step.spentSoFar() }
      : null
  }

  /**
   * Cancels the run when the signal aborts, which it does once: `once` would cost more than the
   * listener. The signal outlives the call, so the listener keeps only the cancellation alive.
   */
  follow(signal: AbortSignal): void {
    const { cancellation } = this
    if (signal.aborted) cancellation.cancel(clientLeft())
    else signal.addEventListener('abort', () => cancellation.cancel(clientLeft()))
  }

  /** Takes the number of the next step in the ledger, where a run and those inside it are one call. */
  takeNumber(): number {
    if (this.within) return this.within.run.takeNumber()
    this.#numbers += 1
    return this.#numbers
  }

  /** Ends a run that uses tools: the gateway stops. All others finish their answer. */
  endLoop(reason: GatewayError): void {
    if (this.toolLoop) this.cancellation.cancel(reason)
  }

  /** Gives back everything that it has: the run is over. */
  release(counters: Pick<Counters, 'give' | 'rates'>): void {
    this.unlist()
    const grant = this.step?.grant ?? this.grant
    if (grant?.isOpen) counters.give(grant)
    // What ends without a record was refused: that costs nothing.
    if (this.rateGrant) counters.rates.give(this.rateGrant, this.ending === null)
    if (this.tree && !this.within) this.tree.close(counters)
    // Where it has a record, that comes first.
    if (this.closers && this.ending === null) this.closeSubaccounts()
    this.room?.then(leave => leave())
    this.freeMemory?.()
  }

  /** Says that what it costs its end user, tags and models is on record. */
  closeSubaccounts(): void {
    for (const close of this.closers ?? []) close()
    this.closers = null
  }
}

/** One turn of a model within a run: its call, its plan, its hold and its cost. */
export class Step<K extends Kind = Kind> {
  readonly run: Run<K>
  readonly isDry: boolean
  /** Counts from 1, together with what the uses of tools cost. */
  readonly number: number
  /** Steady milliseconds: when it began. */
  startedAt: number
  /** Steady milliseconds: when its answer ended, if the run went on. */
  endedAt: number | null = null
  readonly call: Work[K]['call']
  /** The endpoints that may serve it; null until they are known. */
  candidates: Candidates<K> | null = null
  /** The endpoints in the order in which they are tried; null until they are ordered. */
  plan: Plan<K> | null = null
  /** What it may cost, and what the limits allow. */
  costEstimate: CostEstimate | null = null
  amounts: Amounts | null = null
  /** What it takes from its key; null for what needs nothing. */
  grant: Grant | null
  /** Its place in the budget of the call that it is part of; null for a call of one turn. */
  turn: TreeTurn | null = null
  /** Its entry in the journal of holds; null if nothing is set aside. */
  heldCall: HeldCall | null = null
  journalEntry: JournalEntry | null = null
  readonly attempts: Attempt[] = []
  /** The requests that wait for an answer; those stay which we have stopped waiting for. */
  unanswered: SentRequest<K>[] = []
  /** The slower one of two endpoints that were tried side by side; null for almost all. */
  outrun: Outrun | null = null
  /** Whether its answer was read no further than what was set aside for it pays. */
  isCut = false
  /** Whether it was sent. */
  isSent = false
  /** Its answer, once that has begun. */
  answer: OpenedAnswer<K> | null = null
  meter: Meter<Work[K]['part']> | null = null
  /** Returns what it has cost so far, in nano-dollars; null until an answer begins. */
  spentSoFar: (() => bigint) | null = null
  /** What it cost in the end. */
  receipt: Receipt | null = null
  /** Whether the receipt is charged. */
  isCharged = false

  constructor(run: Run<K>, call: Work[K]['call']) {
    this.run = run
    this.isDry = run.isDry
    this.call = call
    this.startedAt = run.startedAt
    this.number = run.takeNumber()
    this.grant = run.grant
    run.grant = null
    run.steps.push(this)
    run.step = this
  }

  /** The model that it is paid for; undefined where none was asked. */
  get model(): string | undefined {
    return (this.answer ?? this.unanswered[0])?.endpoint.model
  }

  /** The plan, or the unordered candidates if none was made. */
  get effectivePlan(): Plan<K> | null {
    return this.plan ?? (this.candidates && toUnorderedPlan(this.candidates))
  }
}

/** The client has closed the connection. */
export const clientLeft = () => new GatewayError('cancelled', 'The client closed the request')

/** Tells whether the run ended because its client left. */
export const isAbandoned = ({ cancellation }: Run): boolean => isDeparture(cancellation.reason)

/** Tells whether this is how a run ends whose client leaves. */
export const isDeparture = (error: GatewayError | null): boolean => error?.type === 'cancelled'

/** Whether anybody may have to be told of calls. Most gateways have nobody. */
export const hasDestinations = ({ memory, config }: Listeners): boolean =>
  memory.destinations.size > 0 || config.telemetry.otlp !== undefined

/** What says whether there are destinations. */
interface Listeners {
  memory: { destinations: { size: number } }
  config: { telemetry: { otlp?: unknown } }
}

/** Creates a plan of just these endpoints. */
export const createPlan = <K extends Kind>(endpoints: Endpoint[]): Plan<K> => ({
  endpoints,
  groups: [{ tiers: [endpoints], sort: undefined, stickyEndpointId: undefined }],
  dropped: [],
  models: [],
  strategy: 'direct',
  stages: [],
})

/** Returns a plan that is never carried out: all candidates, in no particular order. */
const toUnorderedPlan = <K extends Kind>(candidates: Candidates<K>): Plan<K> => ({
  ...candidates,
  endpoints: candidates.groups.flatMap(({ tiers }) => tiers.flat()),
})

/** An answer that has begun: from here on no other endpoint may be tried. */
export interface OpenedAnswer<K extends Kind> extends PeekedSequence<AnswerPart<K>[]> {
  endpoint: Endpoint
  /** When its request was sent, in steady milliseconds. */
  sentAt: number
  /** What may be read on after the client has left; null if nothing is. */
  leftover: Leftover<AnswerPart<K>> | null
  /** The parameters and tools that were left out, as the endpoint has none of them. */
  ignored?: string[]
  /** The most tokens of an answer that is shortened to what a limit pays for. */
  maxTokens?: number
}

/** One attempt at one endpoint while it runs. */
export interface RunningAttempt extends Attempt {
  /** The retry permit that it holds, if it needed one. */
  permit: Permit | null
  /** Ends it. */
  cancellation: Cancellation
  /** Called when the request is sent; null if nothing waits for that. */
  onSent: (() => void) | null
  /** How many items its server takes at once, where that has told. */
  most?: number
  /** Whether nothing was sent, as the endpoint's protocol cannot express the call. */
  isInexpressible: boolean
  /** Whether it failed by its credential alone, and another one of its provider is awake. */
  isCredentialsOwn?: boolean
}

/**
 * What a run may have that a plain one has not, in bits. They are read from the facts of its call,
 * from its policy and from fields of its body, and never from messages.
 */
export const NEEDS = {
  /** Files, or what may name them. */
  files: 1,
  plugins: 2,
  /** Options of plugins for calls that do not mention them. */
  defaults: 4,
  /** A model that the catalogue has not, or that has a variant: a router, perhaps. */
  names: 8,
  search: 16,
  /** The gateway's own tools, or a choice of one. */
  tools: 32,
  filters: 64,
  /** An answer that only begins the work. */
  job: 128,
  /** Contents that are not known to be plain text, as an endpoint would get them. */
  media: 256,
  /** Destinations that are told of calls. */
  subscribers: 512,
} as const

/**
 * What some calls have beside what all have. The engine knows this interface and no extension: the
 * written list of them is handed to it (`extensions/registry.ts`), and each is attached to the runs
 * that need it. A hook throws what stops the call. A plain run has none, and pays for none.
 */
export interface Extension {
  name: string
  /** The needs, any of which it is for. */
  when: number
  /**
   * Before the plan: fetches, reads, filters, refuses. Extensions are opened in the order of the
   * list. A dry run counts, sets aside, remembers, sends and records nothing.
   */
  open?(world: InferenceWorld, run: Run): void | Promise<void>
  /** Before the first turn, once it is known that the key still holds. */
  begin?(world: InferenceWorld, run: Run): void | Promise<void>
  /** What it does while models are found. */
  choose?: Chooser
  /** Returns the call as an endpoint takes it. */
  fit?<K extends Kind>(
    world: InferenceWorld,
    call: Work[K]['call'],
    target: CallTarget<K>,
  ): Work[K]['call'] | Promise<Work[K]['call']>
  /** Has the last look at a request, and returns it as it may leave. */
  send?(
    world: InferenceWorld,
    run: Run,
    request: UpstreamRequest,
    endpoint: Endpoint,
  ): UpstreamRequest | Promise<UpstreamRequest>
  /** Returns the answer with those of the turns that follow; null if none can follow. */
  next?<K extends Kind>(
    world: InferenceWorld,
    answer: OpenedAnswer<K>,
    turns: Turns<K>,
  ): PeekedSequence<AnswerPart<K>[]> | null
  /**
   * Returns the answer as its client gets it; null to leave it. `read` gets what the provider sent,
   * whatever is left of it: that is what is charged.
   */
  read?<K extends Kind>(
    world: InferenceWorld,
    run: Run<K>,
    answer: PeekedSequence<AnswerPart<K>[]>,
    read: (batch: AnswerPart<K>[]) => void,
  ): PeekedSequence<AnswerPart<K>[]> | null
  /** Begins to watch what the client of a run is shown; null if nobody is told of it. */
  watch?(world: InferenceWorld, run: Run): Watcher | null
  /** Before the run is settled and recorded. */
  close?(world: InferenceWorld, run: Run): void | Promise<void>
}

/** What an extension does while models are found. */
interface Chooser {
  /** Picks models for a router's name; undefined if it does not know that one. */
  decide(world: InferenceWorld, router: Router, inputs: RouterInputs): RouterDecision | undefined
  /** Sorts the models of a call. */
  rank<Entry extends { model: Model }>(
    world: InferenceWorld,
    call: Work[Kind]['call'],
    models: Entry[],
  ): Entry[]
  /** Returns the call with what it adds, whichever the model is. */
  extend<K extends Kind>(world: InferenceWorld, call: Work[K]['call']): Work[K]['call']
  /** Returns the call as this model gets it, and what is told of that. */
  fit<K extends Kind>(
    world: InferenceWorld,
    call: Work[K]['call'],
    model: Model,
  ): { call: Work[K]['call']; stages: PipelineStage[] }
  /** Whether calls to this model are fitted that ask for nothing. Models do not change. */
  fitsUnasked(world: InferenceWorld, model: Model): boolean
}

/** What an endpoint takes of a call, and what was fetched for it. */
export interface CallTarget<K extends Kind> {
  kind: KindOfWork<K>
  /** The kinds of media whose URLs the protocol has a field for. */
  takesUrls: Media[]
  /** The schemes of addresses at the provider itself. */
  ownSchemes?: string[] | undefined
  /** Whether URLs of callers go on to the provider. */
  fetchesUrls: boolean
  /** What was fetched for the call, as data URLs by their URL. */
  media: Map<string, string>
  /** Whose memory that takes. */
  run: Run<K>
  cancellation: Run['cancellation']
}

/** How the turns after the first one are taken. */
export interface Turns<K extends Kind> {
  run: Run<K>
  /** Starts to count the answer of a step and returns it. */
  startMetering: (step: Step<K>) => OpenedAnswer<K>
}

/** Watches what the client of a run is shown, for those who are told of it. */
export interface Watcher {
  read(parts: AnswerPart<Kind>[]): void
  /** Builds what is written down with the record; undefined for nothing. */
  close(run: Run, generation: Generation): OutboxMessage[] | undefined
}
