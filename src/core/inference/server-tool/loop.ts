import type { GatewayError } from '../../errors.ts'
import type { TextCall } from '../../language/call.ts'
import type { Message } from '../../language/message.ts'
import type { ServerToolUse, TextPart } from '../../language/part.ts'
import type { ServerToolCounts, ServerTools } from '../../language/server-tools.ts'
import type { FunctionTool, Tool } from '../../language/tool.ts'
import type { Run, Step } from '../run.ts'
import type { ToolSource } from '../server-tool.ts'
import { sumRunReceipts } from '../settle.ts'
import type { InferenceWorld } from '../world.ts'
import { shouldStop } from './stop.ts'
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
}

/**
 * The loop around one call: the turns of the model, and the uses of the gateway's own tools between
 * them, until none is pending or a condition stops it (wire reference D.2). It belongs to a run; the
 * chain of steps (`steps.ts`) asks it after each turn what comes next.
 */
export class ToolLoop {
  /** The functions of the client that the model has not found yet, by name. */
  readonly deferred: Map<string, FunctionTool>
  /** Every use so far, in the order in which the model asked for them. */
  readonly uses: ToolUse[] = []
  readonly #options: LoopOptions
  readonly #usesByTool = new Map<unknown, number>()
  readonly #sources = new Map<string, ToolSource>()
  #turn: Turn
  /** The uses of the current turn; empty if it asked for none. */
  #current: ToolUse[] = []
  /** Whether the current turn is the last one, without tools. */
  #isLast = false

  constructor(options: LoopOptions) {
    this.#options = options
    this.deferred = options.deferred
    this.#turn = this.#createTurn()
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

  /** Counts the calls and the uses of the tools. */
  get counts(): ServerToolCounts {
    const ran = this.uses.filter(({ invocation }) => invocation !== null)
    const countOf = (name: string) => ran.filter(use => use.offered?.tool.name === name).length
    return {
      requested: this.uses.length,
      executed: ran.length,
      searches: countOf('web_search'),
      fetches: countOf('web_fetch'),
    }
  }

  /** Begins another turn. Its answer is read from now on. */
  beginTurn(): void {
    this.#turn = this.#createTurn()
  }

  /** Reads parts of the current turn and returns them without the calls that are for the gateway. */
  read(parts: TextPart[]): TextPart[] {
    return parts.flatMap(part => this.#turn.read(part) ?? [])
  }

  /**
   * Prepares the uses that the turn asks for, once it has ended. Empty if nothing is to be run: the
   * turn asked for nothing, it broke off, or tools were switched off.
   */
  prepareUses(world: InferenceWorld, step: Step): ToolUse[] {
    const { calls, finish } = this.#turn
    if (this.#isLast || !isWhole(finish)) return []
    this.#turn.separateIds()
    this.#current = calls.map((call, i) => {
      const offered = this.#options.functions.get(call.name) ?? null
      const uses = this.#usesByTool.get(offered?.request) ?? 0
      this.#usesByTool.set(offered?.request, uses + 1)
      const turn = step.run.steps.length
      const use = prepareUse(world, step.run, { call, offered, turn, uses })
      if (i < MAX_CALLS) return use
      return refuse({ ...use, invocation: null, price: 0n }, `At most ${MAX_CALLS} calls at once.`)
    })
    this.uses.push(...this.#current)
    return this.#current
  }

  /** Runs the uses of this turn side by side. Each promise resolves when its use has a result. */
  startUses(world: InferenceWorld): Promise<void>[] {
    return this.#current.map(use => runUse(world, use))
  }

  /** Ends the uses that run. */
  stop(reason: GatewayError): void {
    for (const { limit } of this.#current) limit.cancel(reason)
  }

  /** Renders the beginning of the uses of this turn, for clients. */
  renderStarts(world: InferenceWorld): TextPart[] {
    return this.#current.flatMap((use): TextPart[] => {
      const shown = toShownUse(use)
      if (!shown || !use.invocation) return shown ? [{ type: 'server-tool-start', ...shown }] : []
      const item = use.offered?.tool.describeUse?.(world, use.invocation) ?? {}
      return [{ type: 'server-tool-start', ...shown, item }]
    })
  }

  /** Renders the end of one of them. */
  renderEnd(use: ToolUse): TextPart[] {
    const { result } = use
    const shown = toShownUse(use)
    for (const source of result?.sources ?? [])
      if (this.#sources.size < MAX_SOURCES) this.#sources.set(source.url, source)
    if (!shown || !result) return []
    const { text: output, isError, sources = [], loads = [], item = {} } = result
    return [{ type: 'server-tool-end', ...shown, output, isError, sources, loads, item }]
  }

  /**
   * Returns the call of the next turn; null if none follows. After a condition holds, one turn
   * without tools follows.
   */
  takeNextCall(run: Run, call: TextCall): TextCall | null {
    const uses = this.#current
    const turn = this.#turn
    this.#current = []
    const isPaused = uses.some(({ result }) => result?.pauses)
    if (uses.length === 0 || turn.hasClientCalls || isPaused) return null
    const { stops } = this.#options.request
    const progress = { turns: run.steps.length, turn, receipt: sumRunReceipts(run) }
    const isCallOf = (name: string, tool: string) => this.#isCallOf(name, tool)
    this.#isLast = run.steps.length >= MAX_TURNS || shouldStop(stops, { ...progress, isCallOf })
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
    return [...this.#sources.values()].map(source => renderSource(source, text.text))
  }

  #createTurn(): Turn {
    const { functions, clientFunctions, hasOtherTools } = this.#options
    return new Turn(name => functions.has(name) || !(hasOtherTools || clientFunctions.has(name)))
  }

  #isCallOf(functionName: string, toolName: string): boolean {
    if (functionName === toolName) return true
    const request = this.#options.functions.get(functionName)?.request
    return request?.type === toolName || request?.name === toolName
  }

  #takeLoaded({ result }: ToolUse): Tool[] {
    return (result?.loads ?? []).flatMap(name => {
      const tool = this.deferred.get(name)
      this.deferred.delete(name)
      return tool ?? []
    })
  }
}

/** The most turns of a call but the last one, whatever its conditions. */
const MAX_TURNS = 98

/** Whether a turn that ended so said all that it was to say. */
const isWhole = (finish: Turn['finish']): boolean => finish === 'tool_calls' || finish === 'stop'

// Clients do not see calls of functions that nobody has.
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

function renderSource({ url, title, text }: ToolSource, words: string): TextPart {
  const at = words.indexOf(url)
  const place = at === -1 ? [0, 0] : [at, at + url.length]
  const url_citation = {
    url,
    title: title ?? '',
    ...(text === undefined ? {} : { content: text }),
    start_index: place[0],
    end_index: place[1],
  }
  return { type: 'annotation', choice: 0, annotation: { type: 'url_citation', url_citation } }
}
