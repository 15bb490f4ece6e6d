import { isLongTurn, yieldToEventLoop } from '../base/clock.ts'
import type { PeekedSequence } from '../base/iterate.ts'
import type { Router } from '../language/routing.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import type { Generation } from '../observability/generations/store.ts'
import type { OutboxMessage } from '../observability/outbox.ts'
import type { Endpoint, Model } from '../resources/models/catalog.ts'
import type { Media, UpstreamRequest } from '../translation/protocols/protocol.ts'
import { FILE, getFacts, OTHER } from '../translation/tokenizers/prompt.ts'
import type { OpenedAnswer } from './attempt.ts'
import type { KindOfWork } from './kind.ts'
import type { RouterInputs } from './plan/router-candidates.ts'
import type { RouterDecision } from './plan/router-decision.ts'
import type { PipelineStage } from './routing-metadata.ts'
import type { Run, Step } from './run.ts'
import type { InferenceWorld } from './world.ts'

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

/** Reads what a run needs that a plain one does not: 0 for most. */
export function readNeeds({ catalog, config }: InferenceWorld, { call, policy }: Run): number {
  let needs = 0
  if (call.plugins !== undefined) needs |= NEEDS.plugins
  if (policy.filters) needs |= NEEDS.filters
  if (hasDefaults(config.plugins)) needs |= NEEDS.defaults
  for (const slug of call.models)
    if (slug.includes(':') || !catalog.models.has(slug)) needs |= NEEDS.names
  if (call.kind === 'video') needs |= NEEDS.job
  if (call.kind !== 'text') return needs
  const { params, serverTools, messages } = call
  if (serverTools !== undefined || typeof params.tool_choice === 'object') needs |= NEEDS.tools
  if (params.web_search_options !== undefined) needs |= NEEDS.search
  return getFacts(messages).features & (FILE | OTHER) ? needs | NEEDS.files : needs
}

function hasDefaults({ defaults = [], workspaces }: InferenceWorld['config']['plugins']): boolean {
  for (const _ in workspaces) return true
  return defaults.length > 0
}

/**
 * Attaches the extensions that a run needs, and opens each before the next: what one of them adds
 * to the call, another may be for. Others get their turn after one that took long.
 */
export function openExtensions(world: InferenceWorld, run: Run, from = 0): void | Promise<void> {
  const startedAt = world.clock.ticks()
  for (let index = from; index < world.extensions.length; index++) {
    const extension = world.extensions[index]
    if (!extension || (extension.when & readNeeds(world, run)) === 0) continue
    run.extensions = [...run.extensions, extension]
    const pending = extension.open?.(world, run)
    if (pending) return pending.then(() => openExtensions(world, run, index + 1))
    if (isLongTurn(world.clock, startedAt))
      return yieldToEventLoop().then(() => openExtensions(world, run, index + 1))
  }
}

/** Has the extensions of a run do what comes before its first turn. */
export async function beginExtensions(world: InferenceWorld, run: Run): Promise<void> {
  for (const { begin } of run.extensions) if (begin) await begin(world, run)
}

/** Has the extensions of a run do what comes before it is settled. */
export async function closeExtensions(world: InferenceWorld, run: Run): Promise<void> {
  for (const { close } of run.extensions) if (close) await close(world, run)
}

/** Returns a call with contents that are no plain text as its target takes it. */
export async function fitContents<K extends Kind>(
  world: InferenceWorld,
  call: Work[K]['call'],
  target: CallTarget<K>,
): Promise<Work[K]['call']> {
  let fitted = call
  for (const { when, fit } of world.extensions)
    if (fit && when & NEEDS.media) fitted = await fit<K>(world, fitted, target)
  return fitted
}

/** Returns a request as the extensions of its run let it leave. */
export function sendThrough(
  world: InferenceWorld,
  run: Run,
  request: UpstreamRequest,
  endpoint: Endpoint,
): UpstreamRequest | Promise<UpstreamRequest> {
  let sent: UpstreamRequest | Promise<UpstreamRequest> = request
  for (const { send } of run.extensions)
    if (send)
      sent =
        sent instanceof Promise
          ? sent.then(looked => send(world, run, looked, endpoint))
          : send(world, run, sent, endpoint)
  return sent
}

/** Returns the answer of a run with those of the turns that follow; null if none can follow. */
export function chainTurns<K extends Kind>(
  world: InferenceWorld,
  answer: OpenedAnswer<K>,
  turns: Turns<K>,
): PeekedSequence<AnswerPart<K>[]> | null {
  for (const { next } of turns.run.extensions) {
    const chained = next?.(world, answer, turns)
    if (chained) return chained
  }
  return null
}

/**
 * Returns the answer as the extensions of its run leave it; null if none looks at answers. The first
 * of them hands on what the provider sent.
 */
export function readThrough<K extends Kind>(
  world: InferenceWorld,
  run: Run<K>,
  answer: PeekedSequence<AnswerPart<K>[]>,
  read: (batch: AnswerPart<K>[]) => void,
): PeekedSequence<AnswerPart<K>[]> | null {
  let passed: PeekedSequence<AnswerPart<K>[]> | null = null
  for (const { read: hook } of run.extensions)
    passed = hook?.(world, run, passed ?? answer, passed ? ignore : read) ?? passed
  return passed
}

const ignore = () => undefined

/** Begins to watch a run for its subscribers; null if it has none. */
export function watchRun(world: InferenceWorld, run: Run): Watcher | null {
  for (const { when, watch } of world.extensions) {
    const watcher = when & NEEDS.subscribers ? watch?.(world, run) : null
    if (watcher) return watcher
  }
  return null
}
