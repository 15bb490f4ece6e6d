import type { TSchema } from '@sinclair/typebox'
import type { Cancellation } from '../kernel/cancellation.ts'
import type { Json } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'
import type { TextDialect } from '../language/dialect.ts'
import type { ServerToolRequest } from '../language/server-tools.ts'
import type { Run } from './run.ts'
import type { InferenceWorld } from './world.ts'

/**
 * A tool that the gateway runs itself when a model calls it (wire reference D.6). Clients name it
 * `gateway:<name>` or `openrouter:<name>`. All of them are in a written list.
 */
export interface ServerTool<Options = unknown> {
  /** Its name after the prefix: `web_search`. */
  name: string
  /** Further names after the prefix under which clients know it. */
  aliases?: string[]
  /**
   * Types without a prefix that mean this tool in the chat API. Their options may stand beside the
   * type instead of in `parameters`.
   */
  shorthands?: string[]
  /** Types without a prefix that mean this tool in every API, with their options beside the type. */
  plainTypes?: string[]
  /** The APIs that have a form for it; absent for all. */
  dialects?: TextDialect[]
  /** The schema of its `parameters` in a body. */
  schema: TSchema
  /** Parameters with which `gateway tools list` asks for its obstacle; none when absent. */
  example?: Json
  /** Lists what it works with here, for `gateway tools list`: its engines, its servers. */
  listParts?(world: Pick<InferenceWorld, 'config'>): ToolPart[]
  /**
   * Reads its parameters, which are at `path` in the body; `reading` reads tools in them. Throws 400
   * naming the field.
   */
  readOptions(parameters: Json, path: string, reading?: ToolReading): Options
  /** Returns why it does not work with this configuration; null if it does. */
  findObstacle(world: InferenceWorld, options: Options): string | null
  /**
   * Returns the call as a provider itself does this tool's work in it; null if the gateway runs it.
   * Absent if no provider has such a tool.
   */
  delegate?(world: InferenceWorld, call: TextCall, options: Options): TextCall | null
  /**
   * Returns the most that one use may cost, in nano-dollars: it is held before the tool runs.
   * Absent if the tool is free.
   */
  priceUse?(world: InferenceWorld, options: Options): bigint
  /**
   * Lists the functions that a model is shown for it: one, or many for an MCP server. In a dry run
   * (`run.isDry`) it asks nobody.
   */
  listFunctions(
    world: InferenceWorld,
    invocation: ToolContext<Options>,
  ): ToolFunction[] | Promise<ToolFunction[]>
  /**
   * Returns what the client must approve before this use may run; null if it may. A use that is not
   * approved (`isApproved`) does not run: its result says so.
   */
  findApproval?(world: InferenceWorld, invocation: ToolInvocation<Options>): ToolApproval | null
  /** Returns the fields of its output item that are known before it has run. */
  describeUse?(world: InferenceWorld, invocation: ToolInvocation<Options>): Json
  /** Whether it takes turns of models, each of which has its own time, and not that of a use. */
  takesTurns?: boolean
  /** Lists the models that it asks, as far as that is known before it runs. */
  listModels?(options: Options): string[]
  /**
   * Runs it once. A failure that the model can do something about is a result with `isError`;
   * throws only what ends the whole call: its cancellation, or a limit.
   */
  run(world: InferenceWorld, invocation: ToolInvocation<Options>): Promise<ToolResult>
}

/** Reads tools that stand in the parameters of another one. */
export interface ToolReading {
  /** Throws 400 or 403 for what is no tool that the gateway runs here. */
  readTool(entry: unknown, field: string): ServerToolRequest
}

/** Something that a tool works with: an engine, a server. */
export interface ToolPart {
  name: string
  /** Why it cannot be used; null if it can. */
  obstacle: string | null
}

/** A use that waits for the client: the fields of its `mcp_approval_request` but id and input. */
export interface ToolApproval {
  server_label: string
  name: string
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
  /** Whether the client has approved this use. */
  isApproved?: boolean
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
  /** Whether the client must decide first: the turn ends the call, as one with its own tools. */
  pauses?: boolean
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
