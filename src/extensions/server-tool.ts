import type { Cancellation } from '../base/cancellation.ts'
import type { Json } from '../base/json.ts'
import type { Run } from '../engine/run.ts'
import type { TextCall } from '../language/call.ts'
import type { ToolProgress } from '../language/part.ts'
import type { ServerToolRequest } from '../language/server-tools.ts'
import type { Service } from '../limits/rules.ts'
import type { ReadableTool } from '../translation/dialects/world.ts'
import type { PluginWorld } from './plugin.ts'

/** What has the lists of plugins and tools. */
export interface ToolWorld extends PluginWorld {
  /** The tools that the gateway runs itself when models call them. */
  tools: ServerTool[]
}

/**
 * A tool that the gateway runs itself when a model calls it (wire reference D.6). Clients name it
 * `gateway:<name>` or `openrouter:<name>`. All of them are in a written list.
 */
export interface ServerTool<Options = unknown> extends ReadableTool<Options> {
  /** Parameters with which `gateway tools list` asks for its obstacle; none when absent. */
  example?: Json
  /** Lists what it works with here, for `gateway tools list`: its engines, its servers. */
  listParts?(world: Pick<ToolWorld, 'config'>): ToolPart[]
  /**
   * Says for `gateway tools list` at which models it works where that depends on who serves them;
   * null where it works at all of them.
   */
  findReach?(world: ToolWorld): ToolReach | null
  /** Returns why it does not work with this configuration; null if it does. */
  findObstacle(world: ToolWorld, options: Options): string | null
  /**
   * Returns the call as a provider itself does this tool's work in it; null if the gateway runs it.
   * Absent if no provider has such a tool.
   */
  delegate?(world: ToolWorld, call: TextCall, options: Options): TextCall | null
  /**
   * Returns who is sent what a use says; null for nobody, or where models alone are asked. Rules and
   * the caller's preferences bind it as an endpoint: a use that they forbid does not run.
   */
  findService?(world: Pick<ToolWorld, 'config'>, options: Options): Service | null
  /** Whether its service is asked before the model is: rules refuse the whole call then. */
  asksWhenOffered?: boolean
  /**
   * Returns the most that one use may cost, in nano-dollars: it is held before the tool runs.
   * Absent if the tool is free.
   */
  priceUse?(world: ToolWorld, options: Options): bigint
  /**
   * Lists the functions that a model is shown for it: one, or many for an MCP server. In a dry run
   * (`run.isDry`) it sends no request.
   */
  listFunctions(
    world: ToolWorld,
    invocation: ToolContext<Options>,
  ): ToolFunction[] | Promise<ToolFunction[]>
  /**
   * Lists items that stand before all else in the answer, in the form of the call's API: what the
   * tool offers.
   */
  announce?(world: ToolWorld, context: ToolContext<Options>): Json[] | Promise<Json[]>
  /**
   * Translates what the conversation has of earlier uses, of all requests of this tool, into calls
   * of its functions and their results. Returns the uses that the client has approved since, which
   * run before the model's turn. Throws 400 for an approval that is not valid.
   */
  restore?(world: ToolWorld, run: Run, context: RestoreContext): Restored
  /**
   * Returns the item that asks the client for approval; null if the use may run, or if the call's
   * API has no such item. The use does not run, and the answer ends after its turn.
   */
  requestApproval?(world: ToolWorld, invocation: ToolInvocation<Options>): Json | null
  /** Returns the fields of its output item that are known before it has run. */
  describeUse?(world: ToolWorld, invocation: ToolInvocation<Options>): Json
  /** Returns the fields of the output item of a use that does not run: its arguments are no JSON. */
  describeRefusal?(context: ToolContext<Options>, call: { name: string; input: string }): Json
  /** Tells whether a `tool_choice` of its type means this function; all of them if absent. */
  isChosen?(options: Options, choice: Json, name: string): boolean
  /** Whether it takes turns of models, each of which has its own time, and not that of a use. */
  takesTurns?: boolean
  /** Whether it ends its uses itself, each in the time that its options allow. */
  hasOwnTime?: boolean
  /** Lists the models that it asks, as far as that is known before it runs. */
  listModels?(options: Options): string[]
  /**
   * Runs it once. A failure that the model can do something about is a result with `isError`;
   * throws only what ends the whole call: its cancellation, or a limit.
   */
  run(world: ToolWorld, invocation: ToolInvocation<Options>): Promise<ToolResult>
}

/** Whether any model that can be called here gets a tool, and which. */
export interface ToolReach {
  works: boolean
  reason: string
}

/** Something that a tool works with: an engine, a server. */
interface ToolPart {
  name: string
  /** Why it cannot be used; null if it can. */
  obstacle: string | null
}

/** A call, and the requests of one tool in it. */
export interface RestoreContext {
  call: TextCall
  requests: ServerToolRequest[]
}

/** A call whose conversation is in functions and results, and what runs before its first turn. */
export interface Restored {
  call: TextCall
  /** Each has a message of its result in the conversation, which is empty. */
  approved: ApprovedUse[]
}

/** A use that the client has approved. */
export interface ApprovedUse {
  request: ServerToolRequest
  /** The id of the request for approval, which is that of the call in the conversation, too. */
  id: string
  /** The function. */
  name: string
  /** The arguments. */
  input: string
  /** Where the approval stands in the body. */
  field: string
}

/** A function as models are shown it. */
export interface ToolFunction {
  name: string
  description: string
  /** JSON Schema of its arguments. */
  parameters: Record<string, unknown>
}

/** The tool as one call asks for it. */
export interface ToolContext<Options = unknown> {
  options: Options
  run: Run
}

/** One use of a tool by a model. */
export interface ToolInvocation<Options = unknown> extends ToolContext<Options> {
  /** The id of the call, as the model gave it. */
  callId: string
  /** The function that the model called: one of `listFunctions`. */
  name: string
  /** The arguments, parsed. */
  input: Json
  /** How often the tool was used in this call before: from 0. */
  uses: number
  /** The request that the client has approved for this use; absent if none was needed. */
  approvalId?: string
  /** Shows the client what the use does; absent if that client is not shown it. */
  show?(progress: ToolProgress): void
  /**
   * Ends this use: its time is over, the client left, or the gateway stops. Tools run side by side,
   * so each has its own.
   */
  cancellation: Cancellation
}

/** What came of one use. */
export interface ToolResult {
  /** What the model reads. */
  text: string
  /** Whether it failed, in a way that the model is told about. */
  isError: boolean
  /** What answers may cite, in the order in which the text names them. */
  sources?: ToolSource[]
  /**
   * Further fields of its output item, by their names on the wire (wire reference D.4). A `type`
   * replaces the name of the tool.
   */
  item?: Record<string, unknown>
  /** Further items that follow its own, in the form of the call’s API. */
  items?: Json[]
  /** Whether the client must decide first: the turn ends the call, as one with its own tools. */
  pauses?: boolean
  /** Pictures that the answer shows, as data URLs. The model does not see them. */
  pictures?: string[]
  /** What it cost, in nano-dollars; absent if it has no price. */
  cost?: bigint
  /** The names of deferred functions that the model is shown from now on. */
  loads?: string[]
}

/** A page that a result is taken from. */
export interface ToolSource {
  url: string
  title: string | null
  /** An excerpt. */
  text?: string
}
