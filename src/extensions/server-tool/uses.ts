import { GatewayError } from '../../base/errors.ts'
import { recheckRun } from '../../engine/admit.ts'
import { keepNextTurn } from '../../engine/reserve.ts'
import type { Run } from '../../engine/run.ts'
import { nameBound, TreeEnded } from '../../engine/tree.ts'
import type { TextCall } from '../../language/call.ts'
import type { Message } from '../../language/message.ts'
import type { TextPart, ToolProgress } from '../../language/part.ts'
import { filterAddedContent } from '../filters.ts'
import type { ToolWorld } from '../server-tool.ts'
import { findLoop, type ToolLoop } from './loop.ts'
import { chargeUses, releaseUses, reserveUses, type UsesMoney } from './money.ts'
import { refuse, type ToolUse } from './use.ts'

type ProgressPart = Extract<TextPart, { type: 'server-tool-progress' }>

/**
 * What the uses of one turn do, until the client has read it. Pieces of one text that wait are
 * joined, so that a slow reader is kept few and long ones.
 */
export class ShownProgress {
  #parts: ProgressPart[] = []
  #wake: (() => void) | null = null

  /** Lets a use show what it does, as long as it has no result. */
  follow({ invocation, call, result }: ToolUse, hasEnded: () => boolean): void {
    if (!invocation || result) return
    invocation.show = progress => {
      if (!hasEnded()) this.#add({ type: 'server-tool-progress', choice: 0, id: call.id, progress })
    }
  }

  /** Returns what has come since, and forgets it. */
  take(): TextPart[] {
    return this.#parts.splice(0)
  }

  /** Ends the wait: something has come, or a use has ended. */
  wake(): void {
    this.#wake?.()
  }

  /** Resolves at the next `wake`, of which there is one for whatever comes. */
  wait(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  #add(part: ProgressPart): void {
    // Several texts come side by side, and at most one piece of each waits.
    const { id, progress } = part
    const waiting = this.#parts.find(one => one.id === id && isOneText(one.progress, progress))
    if (waiting && 'text' in waiting.progress && 'text' in progress)
      waiting.progress = { ...waiting.progress, text: waiting.progress.text + progress.text }
    else this.#parts.push(part)
    this.wake()
  }
}

/** Whether these are pieces of one text. */
const isOneText = (one: ToolProgress, other: ToolProgress): boolean =>
  PIECES.includes(one.type) &&
  one.type === other.type &&
  ('model' in one ? one.model : null) === ('model' in other ? other.model : null)

const PIECES: ToolProgress['type'][] = ['text', 'panel-text', 'panel-reasoning']

/**
 * Whether the client of a run is shown what its uses of tools do. Only the events of the Responses
 * API have a form for that (wire reference D.5, D.6).
 */
const showsProgress = ({ call, within }: Run): boolean =>
  call.kind === 'text' && call.stream && call.dialect === 'responses' && within === null

/**
 * The uses of tools between two turns, while they run: first the beginning of all of them, then
 * what they do meanwhile, and the end of each in the model's order, as clients are shown them. What
 * they cost is set aside before any runs, and on disk before the last batch.
 */
export class UsesRun {
  readonly #world: ToolWorld
  readonly #run: Run
  readonly #loop: ToolLoop
  readonly #uses: ToolUse[]
  /** What they do; null for a client that is not shown it. */
  readonly #progress: ShownProgress | null
  #ends: Promise<void>[] = []
  readonly #ended = new Set<ToolUse>()
  #charged: Promise<void> | null = null
  #shown = 0

  constructor(world: ToolWorld, run: Run, loop: ToolLoop, uses: ToolUse[]) {
    this.#world = world
    this.#run = run
    this.#loop = loop
    this.#uses = uses
    this.#progress = showsProgress(run) ? new ShownProgress() : null
  }

  /**
   * Returns the next parts, or null at the end. Throws 401 for a key that is no longer valid, 402 if
   * a limit has not enough left, and the reason of a run that is cancelled.
   */
  async next(): Promise<TextPart[] | null> {
    if (!this.#charged) return this.#start()
    const use = this.#uses[this.#shown]
    if (!use) return this.#end()
    const progress = this.#progress && (await this.#awaitProgress(this.#progress, use))
    if (progress) return progress
    await this.#awaitUse()
    this.#shown += 1
    return this.#loop.renderEnd(use)
  }

  async #start(): Promise<TextPart[]> {
    recheckRun(this.#world, this.#run)
    const money = this.#reserve()
    this.#run.pendingStep = money.then(doNothing, doNothing)
    const reserved = await money
    const { cancellation } = this.#run
    if (cancellation.reason) {
      if (reserved) releaseUses(this.#world, reserved)
      throw cancellation.reason
    }
    cancellation.listen(reason => this.#loop.stop(reason))
    if (this.#progress) this.#followUses(this.#progress)
    this.#ends = this.#loop.startUses(this.#world)
    if (this.#progress) this.#followEnds(this.#progress)
    this.#charged = Promise.allSettled(this.#ends).then(async () => {
      cancellation.listen(null)
      if (reserved) await chargeUses(this.#world, reserved)
    })
    this.#run.pendingStep = this.#charged.catch(doNothing)
    // Each is awaited when its turn comes, but all of them may fail before.
    for (const end of this.#ends) end.catch(doNothing)
    return this.#loop.renderStarts(this.#world, this.#run)
  }

  /** Sets aside the turn that follows, and what the uses cost; those that nothing is left for end. */
  async #reserve(): Promise<UsesMoney | null> {
    const run = this.#run
    const { tree, within } = run
    const asking = this.#uses.filter(
      ({ offered, invocation }) => invocation && offered?.tool.takesTurns,
    )
    if (!within && asking.length > 0)
      await keepNextTurn(this.#world, run, asking.length * ROOM_OF_RESULT)
    const reached = within && tree ? tree.findReached() : null
    if (reached !== null) refusePriced(this.#uses, reached)
    try {
      return await reserveUses(this.#world, run, this.#uses)
    } catch (thrown) {
      const bound = nameBound(GatewayError.from(thrown))
      // What the client has approved can be approved again: no turn of the call has begun.
      if (bound === null || run.steps.length === 0) throw thrown
      tree?.end(bound)
      refusePriced(this.#uses, bound)
      return null
    }
  }

  #followUses(progress: ShownProgress): void {
    for (const use of this.#uses) progress.follow(use, () => this.#ended.has(use))
  }

  #followEnds(progress: ShownProgress): void {
    for (const [i, use] of this.#uses.entries()) {
      const end = () => {
        this.#ended.add(use)
        progress.wake()
      }
      this.#ends[i]?.then(end, end)
    }
  }

  /** Returns what the uses do until this one has ended; null once it has. */
  async #awaitProgress(progress: ShownProgress, use: ToolUse): Promise<TextPart[] | null> {
    for (;;) {
      const parts = progress.take()
      if (parts.length > 0) return parts
      if (this.#ended.has(use)) return null
      await progress.wait()
    }
  }

  // A use that ends the call ends those beside it.
  async #awaitUse(): Promise<void> {
    try {
      await this.#ends[this.#shown]
    } catch (thrown) {
      this.#loop.stop(GatewayError.from(thrown))
      throw thrown
    }
  }

  async #end(): Promise<null> {
    await this.#charged
    this.#run.pendingStep = null
    if (this.#run.cancellation.reason) throw this.#run.cancellation.reason
    return null
  }
}

/** Characters that the result of a model which is asked is expected to have, of the next prompt. */
const ROOM_OF_RESULT = 8_000

/** Answers the uses that have a price: nothing is left for them. */
function refusePriced(uses: ToolUse[], bound: string): void {
  for (const use of uses) {
    if (use.price === 0n) continue
    use.invocation = null
    use.price = 0n
    refuse(use, new TreeEnded(bound).message)
  }
}

const doNothing = () => undefined

/**
 * Runs the uses that the client has approved since the last answer, before the model's first turn.
 * Their results join the conversation, and what clients see of them begins the answer. An approval
 * is used once it begins, also if the call fails later. Returns synchronously if there are none. Throws 400
 * for one that another call has used, 401 for a key that is no longer valid, 402 if a limit has not
 * enough left, and 403 for a result that filters block.
 */
export function runApproved(world: ToolWorld, run: Run): void | Promise<void> {
  const { isDry, blocked } = run
  const loop = findLoop(run)
  if (loop && loop.approved.length > 0 && !isDry && !blocked) return runUses(world, run, loop)
}

async function runUses(world: ToolWorld, run: Run, loop: ToolLoop): Promise<void> {
  const uses = new UsesRun(world, run, loop, await loop.beginApproved(world, run))
  let hasBegun = false
  try {
    for (let parts = await uses.next(); parts; parts = await uses.next()) {
      hasBegun = true
      loop.opening.push(...parts)
    }
  } catch (thrown) {
    if (!hasBegun) loop.forgetApproved(world)
    throw thrown
  } finally {
    // What ran beside one that failed is charged first.
    await run.pendingStep
    run.pendingStep = null
  }
  const call = run.call as TextCall
  const results = loop.takeApprovedResults()
  const messages = call.messages.map(message => fillResult(message, results))
  run.call = (await filterAddedContent(run, call, { ...call, messages })) as Run['call']
  recheckRun(world, run)
}

const fillResult = (message: Message, results: Map<string, Message>): Message => {
  const isOpen = message.role === 'tool' && message.blocks.length === 0
  return (isOpen && results.get(message.tool_call_id ?? '')) || message
}
