import { GatewayError } from '../../base/errors.ts'
import type { PeekedSequence } from '../../base/iterate.ts'
import { recheckRun } from '../../engine/admit.ts'
import { startMetering } from '../../engine/infer.ts'
import { isAbandoned, Run, Step } from '../../engine/run.ts'
import { findAnsweredStep, recordStep, settleStep } from '../../engine/settle.ts'
import { runStages } from '../../engine/stages.ts'
import { nameBound } from '../../engine/tree.ts'
import type { TextCall } from '../../language/call.ts'
import type { ImageCall, Picture } from '../../language/image.ts'
import type { TextPart } from '../../language/part.ts'
import type { AnswerPart, Kind, Work } from '../../language/work.ts'
import { filterInnerCall } from '../filters.ts'
import type { ToolInvocation, ToolSource, ToolWorld } from '../server-tool.ts'
import { openChain } from '../steps.ts'
import { findLoop } from './loop.ts'
import { offerTools } from './offer.ts'

/** What a use of a tool asks a model. */
type InnerQuestion = Pick<TextCall, 'models' | 'messages' | 'params' | 'serverTools'>

/** Reads what a model says within a use, while it says it: at most as much as its result may be. */
export type InnerWatch = (kind: 'text' | 'reasoning', text: string) => void

/** What a model answered within a use of a tool. */
export interface InnerAnswer {
  text: string
  /** The model that answered; null if none did. */
  model: string | null
  /** Why there is no answer, in words for the model that asked; null if there is one. */
  error: string | null
  /** The HTTP status of that; null if it has none. */
  status: number | null
  /** What its tools have found. */
  sources: ToolSource[]
}

/** What a use of a tool has drawn. */
type PictureQuestion = Pick<ImageCall, 'models' | 'prompt' | 'params'>

/** What a model drew within a use of a tool. */
interface DrawnPictures {
  pictures: Picture[]
  /** The model that drew; null if none did. */
  model: string | null
  /** Why there is no picture, in words for the model that asked; null if there is one. */
  error: string | null
}

/**
 * Asks a model within a use of a tool. Its turns are part of the client's call: they have its id,
 * its key, its limits and rules, and each is held, charged and on record like the turns around
 * them. A model that fails is an answer with an error. Throws what ends the whole call: 401 for a
 * key that is gone, 402 for a limit, 403 for content filters, 503, and the reason of a use that is
 * cancelled. An answer that is watched is streamed by its provider.
 */
export async function askModel(
  world: ToolWorld,
  invocation: ToolInvocation,
  question: InnerQuestion,
  watch: InnerWatch | null = null,
): Promise<InnerAnswer> {
  const words = new LastWords(world.config.server_tools.max_result_characters, watch)
  const call = { ...buildInnerCall(invocation, question), stream: watch !== null }
  const inner = await takeTurns(world, invocation, 'text', call, parts => words.read(parts))
  if (!inner) return fail(describeDepth(invocation))
  return inner.error ? fail(inner.error.message, inner.error.status) : readOutcome(inner.run, words)
}

/**
 * Has a model draw within a use of a tool, under the same limits and rules. Throws as `askModel`
 * does.
 */
export async function drawPictures(
  world: ToolWorld,
  invocation: ToolInvocation,
  question: PictureQuestion,
): Promise<DrawnPictures> {
  const base = buildInnerBase(invocation)
  const call: ImageCall = { ...base, ...question, kind: 'image', references: [], options: {} }
  const pictures: Picture[] = []
  const inner = await takeTurns(world, invocation, 'image', call, parts => {
    for (const part of parts)
      if (part.type === 'picture') pictures.push(part)
      else if (part.type === 'error') throw part.error
  })
  if (!inner) return { pictures: [], model: null, error: describeDepth(invocation) }
  if (inner.error) return { pictures: [], model: null, error: inner.error.message }
  const model = findAnsweredStep(inner.run)?.answer?.endpoint.model ?? null
  return { pictures, model, error: pictures.length > 0 ? null : 'The model drew nothing.' }
}

/** A call within a use of a tool that has ended. */
interface InnerEnding<K extends Kind> {
  run: Run<K>
  /** What went wrong, if that is for the model that asked. */
  error: GatewayError | null
}

/** Runs a call within a use of a tool; null if that is too deep inside others. */
async function takeTurns<K extends Kind>(
  world: ToolWorld,
  invocation: ToolInvocation,
  kind: K,
  call: Work[K]['call'],
  read: (parts: AnswerPart<K>[]) => void,
): Promise<InnerEnding<K> | null> {
  const { cancellation, run: outer } = invocation
  if (cancellation.reason) throw cancellation.reason
  if (outer.tree && outer.depth >= outer.tree.limits.depth) {
    outer.tree.end('limits.tree.depth')
    return null
  }
  const run = createInnerRun(world, invocation, kind, call)
  const ended = Promise.withResolvers<void>()
  run.closing = ended.promise
  outer.inner.push(run)
  cancellation.listen(reason => cancelInner(invocation, reason))
  try {
    return { run, error: await readAnswer(world, run, read) }
  } finally {
    // What it was admitted with is the client's call's; this is its own.
    run.room?.then(leave => leave())
    run.freeMemory?.()
    ended.resolve()
  }
}

const describeDepth = ({ run: { tree } }: ToolInvocation): string =>
  `Calls within calls end here, at a depth of ${tree?.limits.depth}.`

const fail = (error: string, status: number | null = null): InnerAnswer => ({
  ...{ text: '', model: null, error, status, sources: [] },
})

// A tool may ask several models at once.
function cancelInner(invocation: ToolInvocation, reason: GatewayError): void {
  for (const { within, cancellation } of invocation.run.inner)
    if (within === invocation) cancellation.cancel(reason)
}

function createInnerRun<K extends Kind>(
  world: ToolWorld,
  invocation: ToolInvocation,
  kind: K,
  call: Work[K]['call'],
): Run<K> {
  const { actor, policy, created } = invocation.run
  const startedAt = world.clock.ticks()
  return new Run<K>({ actor, policy, created, within: invocation, kind, call, startedAt })
}

/**
 * Builds what a call of a model within another call has of that. Where data may go is the caller's
 * decision, and holds for it too; what concerns the conversation does not.
 */
function buildInnerBase({ run }: ToolInvocation) {
  const { id, routing, user, trace, preset_id, origin, dialect } = run.call as TextCall
  const common = { id, routing, user, trace, preset_id, origin, dialect }
  return { ...common, stream: false, session_id: null, echoUpstreamBody: false }
}

const buildInnerCall = (invocation: ToolInvocation, question: InnerQuestion): TextCall => ({
  ...buildInnerBase(invocation),
  ...{ kind: 'text', tools: [], extra: {}, betas: [] },
  ...question,
})

/** Reads the whole answer; returns what went wrong if that is for the model that asked. */
async function readAnswer<K extends Kind>(
  world: ToolWorld,
  run: Run<K>,
  read: (parts: AnswerPart<K>[]) => void,
): Promise<GatewayError | null> {
  try {
    recheckRun(world, run)
    await offerTools(world, run)
    await filterInnerCall(run)
    const step = new Step(run, run.call)
    step.startedAt = world.clock.ticks()
    await runStages(world, world.stages.step, step)
    const meter = (next: Step<K>) => startMetering(world, next)
    const options = { run, followUps: [], startMetering: meter }
    await readAll(openChain(world, meter(step), options), read)
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    const isForModel = isOfModel(run, error)
    await closeInnerRun(world, run, error)
    if (isForModel) return error
    throw thrown
  }
  await closeInnerRun(world, run, null)
  return null
}

async function readAll<K extends Kind>(
  { first, rest }: PeekedSequence<AnswerPart<K>[]>,
  read: (parts: AnswerPart<K>[]) => void,
): Promise<void> {
  read(first)
  for (let step = await rest?.next(); step && !step.done; step = await rest?.next())
    read(step.value)
}

/** What a model said after its last tools. */
class LastWords {
  text = ''
  readonly #most: number
  readonly #watch: InnerWatch | null
  /** The characters that were watched. */
  readonly #watched = { text: 0, reasoning: 0 }

  constructor(most: number, watch: InnerWatch | null) {
    this.#most = most
    this.#watch = watch
  }

  read(parts: TextPart[]): void {
    for (const part of parts)
      if (part.type === 'server-tool-start') this.text = ''
      else if (part.type === 'text-delta' || part.type === 'refusal-delta') this.#add(part.text)
      else if (part.type === 'reasoning-delta') this.#show('reasoning', part.text)
      else if (part.type === 'error') throw part.error
  }

  // What is longer is cut off, as the result of every tool: one character more shows that it was.
  #add(text: string): void {
    const piece = text.slice(0, Math.max(0, this.#most + 1 - this.text.length))
    this.text += piece
    this.#show('text', piece)
  }

  #show(kind: 'text' | 'reasoning', text: string): void {
    const piece = text.slice(0, Math.max(0, this.#most + 1 - this.#watched[kind]))
    if (piece === '') return
    this.#watched[kind] += piece.length
    this.#watch?.(kind, piece)
  }
}

/**
 * Tells whether what went wrong is the model's or its provider's, that none may serve, or that
 * nothing is left for another turn: the model that asked can go on without. All else ends the whole
 * call.
 */
function isOfModel({ step, cancellation, blocked }: Run, error: GatewayError): boolean {
  if (!step || cancellation.reason || blocked || step.receipt) return false
  return step.isSent || step.plan === null || nameBound(error) !== null
}

/** Settles and charges the last turn. Resolves when that is on disk. Throws as `recordStep` does. */
async function closeInnerRun<K extends Kind>(
  world: ToolWorld,
  run: Run<K>,
  error: GatewayError | null,
): Promise<void> {
  const endedAt = world.clock.ticks()
  if (run.pendingStep) await run.pendingStep
  run.ending = { error, endedAt, cancelled: isAbandoned(run) }
  const { step } = run
  if (!step) return
  if (!step.receipt) await settleStep(world, step, run.ending)
  step.endedAt ??= endedAt
  // What was not sent has no hold: it was refused before, or given back.
  if (step.isSent) await recordStep(world, step)
}

function readOutcome(run: Run<'text'>, { text }: LastWords): InnerAnswer {
  const model = findAnsweredStep(run)?.answer?.endpoint.model ?? null
  const isPaused = findLoop(run)?.uses.some(({ result }) => result?.pauses)
  if (isPaused) return { ...fail('It called a tool that its client must approve or run.'), model }
  return text.trim() === ''
    ? { ...fail('The model gave no answer.'), model }
    : { text, model, error: null, status: null, sources: listSources(run) }
}

const listSources = (run: Run<'text'>): ToolSource[] =>
  findLoop(run)?.uses.flatMap(({ result }) => result?.sources ?? []) ?? []
