import { type Static, Type } from '@sinclair/typebox'
import type { ServerTool, ToolInvocation, ToolResult } from '../inference/server-tool.ts'
import { readString } from '../kernel/json.ts'
import { closed, optional } from '../kernel/schema-builders.ts'
import { rankByWords } from './rank-by-words.ts'

const Parameters = Type.Object(
  { max_results: optional(Type.Integer({ minimum: 1, maximum: 50 })) },
  closed,
)

/** How many functions are found at most. */
interface SearchOptions {
  max_results: number
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
  describeUse: (_, { input }) => ({ query: readString(input.query) ?? '' }),
  run: async (_, invocation) => runSearch(invocation),
}

function runSearch({ input, options, run }: ToolInvocation<SearchOptions>): ToolResult {
  const query = readString(input.query)
  if (query === null) return { text: 'query: expected a text', isError: true }
  const deferred = [...(run.toolLoop?.deferred.values() ?? [])]
  const found = rankByWords(deferred, query, ({ name, description = '' }) => [name, description])
  const functions = found.slice(0, options.max_results)
  const shown = functions.map(({ name, description }) => ({ name, description }))
  return {
    text:
      shown.length > 0
        ? `These tools can be called now: ${JSON.stringify(shown)}`
        : 'No tool was found. Try other words.',
    isError: false,
    item: { query },
    loads: functions.map(({ name }) => name),
  }
}
