import { type Static, Type } from '@sinclair/typebox'
import { type Json, readString } from '../../base/json.ts'
import { closed, optional } from '../../base/schema-builders.ts'
import { listCallableModels } from '../../resources/models.ts'
import type { ServerTool, ToolInvocation, ToolResult } from '../server-tool.ts'
import type { ExtensionWorld } from '../world.ts'
import { rankByWords } from './rank-by-words.ts'

const Parameters = Type.Object(
  { max_results: optional(Type.Integer({ minimum: 1, maximum: 20 })) },
  closed,
)

/** How many models are found at most. */
interface SearchOptions {
  max_results: number
}

/** The models that are found if nothing else is said (wire reference D.6). */
const DEFAULT_RESULTS = 5

/** Searches the models that the caller may call. */
export const searchModels: ServerTool<SearchOptions> = {
  name: 'search_models',
  aliases: ['experimental__search_models'],
  schema: Parameters,
  readOptions: parameters => ({
    max_results: (parameters as Static<typeof Parameters>).max_results ?? DEFAULT_RESULTS,
  }),
  findObstacle: () => null,
  listFunctions: () => [
    {
      name: 'search_models',
      description:
        'Searches the language models that can be called here, by words of their name, their ' +
        'author and their description. Returns their slugs, prices and context lengths.',
      parameters: {
        type: 'object',
        properties: { query: { type: 'string', description: 'Words to look for' } },
        required: ['query'],
        additionalProperties: false,
      },
    },
  ],
  describeUse: (_, { input }) => describe(input),
  run: async (world, invocation) => runSearch(world, invocation),
}

function runSearch(
  world: ExtensionWorld,
  { input, options, run }: ToolInvocation<SearchOptions>,
): ToolResult {
  const query = readString(input.query)
  if (query === null) return { text: 'query: expected a text', isError: true }
  const all = listCallableModels(world, { output_modalities: 'all' }, run.policy.rules, run.actor)
  const found = rankByWords(all.data, query, ({ id, name, description }) => [
    `${id} ${name}`,
    description,
  ])
  const models = found.slice(0, options.max_results)
  const shown = models.map(({ id, name, description, context_length, architecture, pricing }) => ({
    ...{ id, name, context_length, architecture, pricing },
    description: description.slice(0, LONGEST_DESCRIPTION),
  }))
  return {
    text: JSON.stringify({ models: shown, total: found.length }),
    isError: false,
    item: describe(input),
  }
}

const LONGEST_DESCRIPTION = 400

const describe = (input: Json): Json => ({
  arguments: JSON.stringify(input),
  query: readString(input.query) ?? '',
})
