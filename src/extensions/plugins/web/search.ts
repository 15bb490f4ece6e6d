import type { Run } from '../../../engine/run.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Enrichment } from '../../plugin.ts'
import { runOpeningUse } from '../../server-tool/opening-use.ts'
import { prepareUse, type ToolUse } from '../../server-tool/use.ts'
import type { ServerTool, ToolResult, ToolWorld } from '../../server-tool.ts'
import { cleanText } from '../../tools/untrusted-text.ts'
import { webSearch } from '../../tools/web-search.ts'
import { toToolOptions, type WebOptions } from './options.ts'

/**
 * Searches once with the last message of the user and returns what was found, for the model. It is
 * a use of the tool that searches, so it has that one's price, limits and record. Throws as
 * `runOpeningUse` does.
 */
export async function searchOnce(
  world: ToolWorld,
  run: Run,
  call: TextCall,
  options: WebOptions,
): Promise<Enrichment | null> {
  const query = buildQuery(call)
  if (query === '' || run.isDry) {
    const outcome = run.isDry ? 'not searched: a dry run' : 'not searched: no text to search for'
    addStage(run, options, null, outcome)
    return null
  }
  const use = prepareSearch(world, run, query, options)
  await runOpeningUse(world, run, use)
  const { result } = use
  if (!result) return null
  addStage(run, options, result, result.isError ? 'failed' : 'searched')
  return { instruction: buildInstruction(world, result, options), content: result.text }
}

const prepareSearch = (world: ToolWorld, run: Run, query: string, options: WebOptions): ToolUse =>
  prepareUse(world, run, {
    call: { id: 'web', name: webSearch.name, input: JSON.stringify({ query }) },
    offered: {
      tool: webSearch as ServerTool,
      request: {
        ...{ name: webSearch.name, identity: webSearch.name, type: 'web', field: 'plugins' },
        options: toToolOptions(options),
      },
    },
    ...{ turn: 0, uses: 0 },
  })

/** The most characters of a query. */
const LONGEST_QUERY = 2_000

/** Returns the text of the last message of the user, as content filters leave it. */
function buildQuery({ messages }: TextCall): string {
  const blocks = messages.findLast(({ role }) => role === 'user')?.blocks ?? []
  const texts = blocks.flatMap(block => (block.type === 'text' ? block.text : []))
  const words = cleanText(texts.join(' ')).replace(/\s+/g, ' ').trim()
  return words.slice(0, LONGEST_QUERY).toWellFormed().trim()
}

/** Wire reference C.4: a dated text, which `search_prompt` replaces. */
function buildInstruction(
  { clock }: ToolWorld,
  { isError }: ToolResult,
  { search_prompt }: WebOptions,
): string {
  const day = clock.now().toISOString().slice(0, 10)
  if (isError)
    return `A web search was attempted on ${day} and failed. Say so if the answer depends on it.`
  return (
    search_prompt ??
    `A web search was conducted on ${day}. Incorporate the following web search results into ` +
      'your response. IMPORTANT: Cite the results that you use as Markdown links named for the ' +
      'domain of the source, for example [nytimes.com](https://nytimes.com/some-page).'
  )
}

function addStage(
  run: Run,
  { engine }: WebOptions,
  result: ToolResult | null,
  outcome: string,
): void {
  const results = result?.sources?.length ?? 0
  run.pluginStages.push({
    type: 'plugin',
    name: 'web',
    summary: `engine=${engine}, results=${results}, ${outcome}`,
    data: { engine, results, searched: result !== null && !result.isError },
  })
}
