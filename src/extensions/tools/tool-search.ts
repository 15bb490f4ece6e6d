import { type Static, Type } from '@sinclair/typebox'
import { type Json, readString } from '../../base/json.ts'
import { closed, optional } from '../../base/schema-builders.ts'
import type { Run } from '../../engine/run.ts'
import type { FunctionTool, Tool } from '../../language/tool.ts'
import { findLoop } from '../server-tool/loop.ts'
import type { ServerTool, ToolInvocation, ToolResult } from '../server-tool.ts'
import { hasFunction, isRunByAll, leaveNative, type NativeForm } from './native-form.ts'
import { rankByWords } from './rank-by-words.ts'

const Parameters = Type.Object(
  { max_results: optional(Type.Integer({ minimum: 1, maximum: 50 })) },
  closed,
)

/** How many functions are found at most. */
interface SearchOptions {
  max_results: number
  /** The tool as an API has it for its own providers; absent for the gateway's own. */
  native?: NativeForm
}

/** The functions that are found if nothing else is said (wire reference D.6). */
const DEFAULT_RESULTS = 5

/**
 * Searches the functions of the call that have `defer_loading`: the model is not shown them before,
 * and may call those that it finds.
 */
export const toolSearch: ServerTool<SearchOptions> = {
  name: 'tool_search',
  schema: Parameters,
  readOptions: parameters => ({
    max_results: (parameters as Static<typeof Parameters>).max_results ?? DEFAULT_RESULTS,
  }),
  nativeTypes: { responses: /^tool_search$/, messages: /^tool_search_tool_(regex|bm25)(_\d{8})?$/ },
  // A client may run its own.
  claims: ({ execution }) => execution !== 'client',
  readNative: (_, value, { at = 0 }) => ({ max_results: DEFAULT_RESULTS, native: { value, at } }),
  delegate: (world, call, { native }) =>
    native && (isRunByAll(world, call) || !call.tools.some(isDeferred) || hasFunction(call, NAME))
      ? leaveNative(call, native)
      : null,
  findObstacle: () => null,
  listFunctions: () => [
    {
      name: 'tool_search',
      description:
        'Searches further tools, by words of their names and descriptions. Those that are found ' +
        'can be called from then on.',
      parameters: {
        type: 'object',
        properties: { query: { type: 'string', description: 'What the tool should do' } },
        required: ['query'],
        additionalProperties: false,
      },
    },
  ],
  describeUse: (_, { input, options, run }) => {
    const query = readString(input.query) ?? ''
    return isOwnItem(options, run)
      ? { type: 'tool_search_call', ...HOSTED, arguments: { query } }
      : { query }
  },
  run: async (_, invocation) => runSearch(invocation),
}

const NAME = 'tool_search'

/** How items say that the client has nothing to do for them. */
const HOSTED = { execution: 'server', call_id: null }

const isDeferred = (tool: Tool): boolean =>
  tool.type === 'function' && tool.extra?.defer_loading === true

/** Whether the use is shown as OpenAI shows its own. */
const isOwnItem = ({ native }: SearchOptions, { call }: Run): boolean =>
  native !== undefined && call.kind === 'text' && call.dialect === 'responses'

// The client sends it back, and the model has those functions from then on.
const toOutputItem = (functions: FunctionTool[]): Json => ({
  type: 'tool_search_output',
  ...HOSTED,
  status: 'completed',
  tools: functions.map(({ type, name, description = null, parameters = null }) => ({
    ...{ type, name, description, parameters, defer_loading: true },
  })),
})

function runSearch({ input, options, run }: ToolInvocation<SearchOptions>): ToolResult {
  const query = readString(input.query)
  if (query === null) return { text: 'query: expected a text', isError: true }
  const deferred = [...(findLoop(run)?.deferred.values() ?? [])]
  const found = rankByWords(deferred, query, ({ name, description = '' }) => [name, description])
  const functions = found.slice(0, options.max_results)
  const shown = functions.map(({ name, description }) => ({ name, description }))
  return {
    text:
      shown.length > 0
        ? `These tools can be called now: ${JSON.stringify(shown)}`
        : 'No tool was found. Try other words.',
    isError: false,
    ...(isOwnItem(options, run) ? { items: [toOutputItem(functions)] } : { item: { query } }),
    loads: functions.map(({ name }) => name),
  }
}
