import { type GatewayError, invalid } from '../../base/errors.ts'
import type { Run, Step, UsedTools } from '../../engine/run.ts'
import { sumRunReceipts } from '../../engine/settle/receipt.ts'
import type { TextCall } from '../../language/call.ts'
import type { Message } from '../../language/message.ts'
import type { ServerToolUse, TextPart } from '../../language/part.ts'
import type { ServerTools, StopCondition } from '../../language/server-tools.ts'
import type { FunctionTool, Tool } from '../../language/tool.ts'
import { countInputTokens, countOutputTokens, type Receipt } from '../../language/usage.ts'
import type { ApprovedUse, ToolSource, ToolWorld } from '../server-tool.ts'
import { readPlace, renderSource, type TextPlace } from './sources.ts'
import { Turn } from './turn.ts'
import { type OfferedFunction, prepareUse, refuse, runUse, type ToolUse } from './use.ts'

/** The most calls of one turn that are run. All others are refused, which the model is told. */
const MAX_CALLS = 64

/** The most sources that an answer names. */
const MAX_SOURCES = 100

/** What a loop is made of: the functions that the model is shown, and what ends it. */
interface LoopOptions {
  request: ServerTools
  /** By the name of the function. */
  functions: Map<string, OfferedFunction>
  /** Functions of the client that the model is not shown yet, by name. */
  deferred: Map<string, FunctionTool>
  /** The names of all functions that the client runs itself. */
  clientFunctions: Set<string>
  /** Whether the client has tools that are no functions, whose calls may have any name. */
  hasOtherTools: boolean
  /** What the client has approved since the last answer. */
  approved: ApprovedUse[]
  /** What stands before all else in the answer. */
  opening: TextPart[]
}

/**
 * The loop around one call: the turns of the model, and the uses of the gateway's own tools between
 * them, until none is pending or a condition stops it (wire reference D.2). It belongs to a run; the
 * chain of steps (`steps.ts`) asks it after each turn what comes next.
 */
export class ToolLoop implements UsedTools {
  /** The functions of the client that the model has not found yet, by name. */
  readonly deferred: Map<string, FunctionTool>
  /** Every use so far, in the order in which the model asked for them. */
  readonly uses: ToolUse[] = []
  /** What clients see before the first turn. */
  readonly opening: TextPart[]
  readonly #options: LoopOptions
  readonly #usesByTool = new Map<unknown, number>()
  readonly #sources = new Map<string, ToolSource>()
  #turn: Turn
  /** Where the last words of the answer stand. */
  #place: TextPlace = {}
  /** The uses of the current turn; empty if it asked for none. */
  #current: ToolUse[] = []
  /** Whether the current turn is the last one, without tools. */
  #isLast = false

  constructor(options: LoopOptions) {
    this.#options = options
    this.deferred = options.deferred
    this.opening = options.opening
    this.#turn = this.#createTurn()
  }

  /** Makes the first turn the last one: no tool may be called. Returns the parameters for that. */
  endBeforehand(params: TextCall['params']): TextCall['params'] {
    this.#isLast = true
    return switchTools(params, true)
  }

  /** What the client has approved since the last answer. */
  get approved(): ApprovedUse[] {
    return this.#options.approved
  }

  /**
   * Prepares the uses that the client has approved. Each approval is used with that: throws 400 if
   * another call has used one meanwhile, and 503 where that cannot be known.
   */
  async beginApproved(world: ToolWorld, run: Run): Promise<ToolUse[]> {
    await this.#useApprovals(world)
    this.#current = this.approved.map(({ request, id, name, input }) => {
      const offered = this.#options.functions.get(name) ?? null
      const call = { id, name, input }
      const uses = this.#countUse(offered?.request ?? request)
      const use = prepareUse(world, run, { call, offered, turn: 0, uses, approvalId: id })
      return offered ? use : refuse({ ...use, invocation: null, price: 0n }, GONE)
    })
    this.uses.push(...this.#current)
    return this.#current
  }

  async #useApprovals({ traffic: { approvals } }: ToolWorld): Promise<void> {
    const used: string[] = []
    try {
      for (const { id, field } of this.approved) {
        if (!(await approvals.use(id)))
          throw invalid(`${field}: expected an approval that was not used yet`, field)
        used.push(id)
      }
    } catch (thrown) {
      for (const id of used) approvals.giveBack(id)
      throw thrown
    }
  }

  /** Takes back the uses that the client has approved: none of them has begun. */
  forgetApproved({ traffic }: ToolWorld): void {
    for (const { id } of this.approved) traffic.approvals.giveBack(id)
    this.#current = []
    this.uses.length = 0
  }

  /** Takes the results of those uses, by the ids of their calls. */
  takeApprovedResults(): Map<string, Message> {
    const results = this.#current.map(use => [use.call.id, toMessage(use)] as const)
    this.#current = []
    return new Map(results)
  }

  /** Returns the first parts of the answer with what stands before all else. */
  open(parts: TextPart[]): TextPart[] {
    const at = parts.findIndex(({ type }) => type !== 'start' && type !== 'echo')
    return parts.toSpliced(at === -1 ? parts.length : at, 0, ...this.opening.splice(0))
  }

  /** Lists the tools that the call asks for, as the client named them, and what they did. */
  listTools(): { name: string; functions: string[]; uses: ToolUse[]; models: string[] }[] {
    const functions = [...this.#options.functions]
    return this.#options.request.requests.map(request => ({
      name: request.type,
      functions: functions.flatMap(([name, offered]) => (offered.request === request ? name : [])),
      uses: this.uses.filter(({ offered }) => offered?.request === request),
      models: functions
        .flatMap(([, offered]) => (offered.request === request ? offered : []))
        .slice(0, 1)
        .flatMap(({ tool }) => tool.listModels?.(request.options) ?? []),
    }))
  }

  /** Begins another turn. Its answer is read from now on. */
  beginTurn(): void {
    this.#turn = this.#createTurn()
  }

  /** Reads parts of the current turn and returns them without the calls that are for the gateway. */
  read(parts: TextPart[]): TextPart[] {
    const words = parts.findLast(part => part.type === 'text-delta' && part.choice === 0)
    if (words?.type === 'text-delta') this.#place = readPlace(words)
    return parts.flatMap(part => this.#turn.read(part) ?? [])
  }

  /**
   * Prepares the uses that the turn asks for, once it has ended. Empty if nothing is to be run: the
   * turn asked for nothing, it broke off, or tools were switched off.
   */
  prepareUses(world: ToolWorld, step: Step): ToolUse[] {
    const { calls, finish } = this.#turn
    if (this.#isLast || !isWhole(finish)) return []
    this.#turn.separateIds((step.call as TextCall).messages)
    this.#current = calls.map((call, i) => {
      const offered = this.#options.functions.get(call.name) ?? null
      const uses = this.#countUse(offered?.request)
      const turn = step.run.steps.length
      const use = prepareUse(world, step.run, { call, offered, turn, uses })
      if (i < MAX_CALLS) return use
      return refuse({ ...use, invocation: null, price: 0n }, `At most ${MAX_CALLS} calls at once.`)
    })
    this.uses.push(...this.#current)
    return this.#current
  }

  /** Runs the uses of this turn side by side. Each promise resolves when its use has a result. */
  startUses(world: ToolWorld): Promise<void>[] {
    return this.#current.map(use => runUse(world, use))
  }

  /** Ends the uses that run. */
  stop(reason: GatewayError): void {
    for (const { limit } of this.#current) limit.cancel(reason)
  }

  /** Renders the beginning of the uses of this turn, for clients. */
  renderStarts(world: ToolWorld, run: Run): TextPart[] {
    return this.#current.flatMap((use): TextPart[] => {
      const shown = toShownUse(use)
      return shown ? [{ type: 'server-tool-start', ...shown, item: toItem(world, run, use) }] : []
    })
  }

  /** Renders the end of one of them. */
  renderEnd(use: ToolUse): TextPart[] {
    const { result } = use
    const shown = toShownUse(use)
    for (const source of result?.sources ?? [])
      if (this.#sources.size < MAX_SOURCES) this.#sources.set(source.url, source)
    if (!shown || !result) return []
    const { text: output, isError, sources = [], loads = [], item = {}, pictures = [] } = result
    return [
      { type: 'server-tool-end', ...shown, output, isError, sources, loads, item },
      ...renderItems(use),
      ...pictures.map((url): TextPart => ({ type: 'image', choice: 0, url })),
    ]
  }

  /**
   * Returns the call of the next turn; null if none follows. After a condition holds, one turn
   * without tools follows.
   */
  takeNextCall(world: ToolWorld, run: Run, call: TextCall): TextCall | null | Promise<TextCall> {
    const uses = this.#current
    const turn = this.#turn
    this.#current = []
    const isPaused = uses.some(({ result }) => result?.pauses)
    if (uses.length === 0 || turn.hasClientCalls || isPaused) return null
    const { stops } = this.#options.request
    const progress: Progress = {
      turns: run.steps.length,
      turn,
      sumReceipts: () => sumRunReceipts(run),
      isCallOf: (name, tool) => this.#isCallOf(name, tool),
    }
    const stop = findStop(stops, progress)
    if (stop?.type === 'max_cost' || stop?.type === 'max_tokens_used') run.tree?.end(stop.type)
    const isLast = run.steps.length >= countMostTurns(stops) || stop !== undefined
    const decided = run.within === null ? setTurnAside(world, run, isLast) : isLast
    return decided instanceof Promise
      ? decided.then(last => this.#buildNextCall(call, turn, uses, last))
      : this.#buildNextCall(call, turn, uses, decided)
  }

  #buildNextCall(call: TextCall, turn: Turn, uses: ToolUse[], isLast: boolean): TextCall {
    this.#isLast = isLast
    return {
      ...call,
      messages: [
        ...call.messages,
        { role: 'assistant', blocks: turn.blocks },
        ...uses.map(toMessage),
      ],
      tools: [...call.tools, ...uses.flatMap(use => this.#takeLoaded(use))],
      params: switchTools(call.params, this.#isLast),
    }
  }

  /**
   * Returns the last parts of the answer: the sources that it may cite, and its end. An answer that
   * calls nothing of the client does not end in a call.
   */
  renderEnding(parts: TextPart[]): TextPart[] {
    const { hasClientCalls } = this.#turn
    const ending = parts.map(part =>
      part.type === 'finish' && part.choice === 0 && part.reason === 'tool_calls' && !hasClientCalls
        ? { ...part, reason: 'stop' as const }
        : part,
    )
    return [...this.#renderSources(), ...ending]
  }

  #renderSources(): TextPart[] {
    const text = this.#turn.blocks.findLast(block => block.type === 'text')
    if (text?.type !== 'text') return []
    return [...this.#sources.values()].map(source => renderSource(source, text.text, this.#place))
  }

  #countUse(request: unknown): number {
    const uses = this.#usesByTool.get(request) ?? 0
    this.#usesByTool.set(request, uses + 1)
    return uses
  }

  #createTurn(): Turn {
    const { functions, clientFunctions, hasOtherTools } = this.#options
    return new Turn(name => functions.has(name) || !(hasOtherTools || clientFunctions.has(name)))
  }

  #isCallOf(functionName: string, toolName: string): boolean {
    if (functionName === toolName) return true
    return this.#options.functions.get(functionName)?.request.name === toolName
  }

  #takeLoaded({ result }: ToolUse): Tool[] {
    return (result?.loads ?? []).flatMap(name => {
      const tool = this.deferred.get(name)
      this.deferred.delete(name)
      return tool ?? []
    })
  }
}

/** Returns the loop of a run; null if its call has none of the gateway's own tools. */
export const findLoop = ({ toolLoop }: Pick<Run, 'toolLoop'>): ToolLoop | null =>
  toolLoop instanceof ToolLoop ? toolLoop : null

/**
 * Sets aside the turn that follows the next one of a client's call, which is the last one if there is
 * nothing left for another. Returns whether it is.
 */
export const setTurnAside = (
  world: ToolWorld,
  run: Run,
  isLast = false,
): boolean | Promise<boolean> =>
  run.tree?.prepareTurn(isLast, () => {
    const { actor, call } = run
    const isInBatch = call.origin.batch_id !== undefined
    return world.traffic.counters.take({ actor, call, isInBatch, request: true })
  }) ?? isLast

/** The most turns of a call but the last one, whatever its conditions. */
const MAX_TURNS = 98

/** The same where no condition bounds turns, tokens or cost: the default of `max_tool_calls`. */
const UNBOUNDED_TURNS = 30

const BOUNDS = ['step_count_is', 'max_tokens_used', 'max_cost']

const countMostTurns = (stops: StopCondition[]): number =>
  stops.some(({ type }) => BOUNDS.includes(type)) ? MAX_TURNS : UNBOUNDED_TURNS

/** Whether a turn that ended so said all that it was to say. */
const isWhole = (finish: Turn['finish']): boolean => finish === 'tool_calls' || finish === 'stop'

/** What the model is told of a use whose tool is not offered any more. */
const GONE = 'There is no such tool any more.'

/** Returns the fields of the item of a use that are known when it begins. */
function toItem(world: ToolWorld, run: Run, { offered, invocation, result, call }: ToolUse) {
  if (!offered) return {}
  const { tool, request } = offered
  if (invocation) return tool.describeUse?.(world, invocation) ?? {}
  const context = { options: request.options, run }
  return result?.pauses ? (result.item ?? {}) : (tool.describeRefusal?.(context, call) ?? {})
}

const renderItems = ({ invocation, result }: ToolUse): TextPart[] => {
  const call = invocation?.run.call
  if (call?.kind !== 'text') return []
  const { dialect } = call
  return (result?.items ?? []).map(value => ({ type: 'other', choice: 0, dialect, value }))
}

// Clients do not see calls of unknown functions.
const toShownUse = ({ offered, call }: ToolUse): (ServerToolUse & { choice: number }) | null =>
  offered && {
    choice: 0,
    id: call.id,
    tool: offered.tool.name,
    requestedAs: offered.request.type,
    name: call.name,
    input: call.input,
    item: {},
  }

const toMessage = ({ call, result }: ToolUse): Message => ({
  role: 'tool',
  tool_call_id: call.id,
  blocks: [{ type: 'text', text: result?.text ?? '' }],
  ...(result?.isError ? { is_error: true } : {}),
})

/**
 * Returns the parameters of the next turn. A model that must call a tool has called one, and could
 * otherwise never end.
 */
function switchTools(params: TextCall['params'], isOff: boolean): TextCall['params'] {
  if (isOff) return { ...params, tool_choice: 'none' }
  const { tool_choice, ...rest } = params
  return tool_choice === undefined || tool_choice === 'auto' || isAllowance(tool_choice)
    ? params
    : rest
}

const isAllowance = (choice: TextCall['params']['tool_choice']): boolean =>
  typeof choice === 'object' && choice.type === 'allowed_tools'

/** What a call has done so far. */
interface Progress {
  /** The turns that the model has had. */
  turns: number
  /** The last of them. */
  turn: Turn
  /** Sums what all of them and all tools came to: few conditions ask for that. */
  sumReceipts(): Receipt
  /** Tells whether the function belongs to the tool of this name, or has the name itself. */
  isCallOf(functionName: string, toolName: string): boolean
}

/** Finds a condition that holds (wire reference D.2). */
const findStop = (stops: StopCondition[], progress: Progress): StopCondition | undefined =>
  stops.find(stop => holds(stop, progress))

function holds(stop: StopCondition, { turns, turn, sumReceipts, isCallOf }: Progress): boolean {
  switch (stop.type) {
    case 'step_count_is':
      return turns >= stop.step_count
    case 'has_tool_call':
      return turn.blocks.some(
        block => block.type === 'tool-call' && isCallOf(block.name, stop.tool_name),
      )
    case 'max_tokens_used':
      return countTokens(sumReceipts()) >= stop.max_tokens
    case 'max_cost':
      return (sumReceipts().cost ?? 0n) >= stop.nanos
    case 'finish_reason_is':
      return turn.finish === stop.reason
  }
}

const countTokens = ({ usage }: Receipt): number =>
  countInputTokens(usage) + countOutputTokens(usage)
