import type { GatewayError } from '../../base/errors.ts'
import { isObject, omitUndefined } from '../../base/json.ts'
import type { AnswerFilter } from '../../engine/kind.ts'
import { addRequiredCapability } from '../../engine/kinds/text/understanding.ts'
import type { Run } from '../../engine/run.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import type { Plugin } from '../plugin.ts'
import { listOpeningUses } from '../server-tool/opening-use.ts'
import { readPlace, renderSource, type TextPlace } from '../server-tool/sources.ts'
import type { ToolSource, ToolWorld } from '../server-tool.ts'
import type { ExtensionWorld } from '../world.ts'
import { requireTool } from './require-tool.ts'
import { chooseSearcher, implySearch } from './web/choose-searcher.ts'
import { isOwnEngine, readWebOptions, type WebOptions } from './web/options.ts'
import { searchOnce } from './web/search.ts'

/**
 * The `web` plugin: the call's provider searches the web itself as the options say, or an engine of
 * the config searches once before the model's turn (wire reference C.4). Calls with `:online` use
 * it unasked, and those with `web_search_options` that only an engine can serve.
 */
export const web: Plugin<WebOptions> = {
  id: 'web',
  readOptions: readWebOptions,
  imply: (world, call) => (call.kind === 'text' ? implySearch(world, call) : undefined),
  prepare: (world, run, options) =>
    run.call.kind === 'text' ? prepareSearch(world, run, run.call, options) : run.call,
  enrich: async (world: ToolWorld, run, call, options) =>
    isOwnEngine(options) ? searchOnce(world, run, call, options) : null,
  before: (call, options) =>
    call.kind === 'text' && !isOwnEngine(options) ? addSearch(call, options) : call,
  after: (_, run) =>
    SourceFilter.create(
      listOpeningUses(run).flatMap(({ offered, result }) =>
        offered?.request.type === 'web' ? (result?.sources ?? []) : [],
      ),
    ),
}

function prepareSearch(
  world: ExtensionWorld,
  run: Run,
  call: TextCall,
  options: WebOptions,
): TextCall {
  const prepared = chooseSearcher(world, call, options)
  if (prepared !== call) requireTool(world, run, 'web_search')
  return prepared
}

/** Adds a search by the provider. The call's own `web_search_options` overrule the plugin's. */
function addSearch(call: TextCall, options: WebOptions): TextCall {
  const { web_search_options: callOptions } = call.params
  const { max_uses, allowed_domains, excluded_domains, user_location, x_search } = options
  const search = omitUndefined({
    ...{ max_uses, allowed_domains, excluded_domains, user_location, x_search },
  })
  return addRequiredCapability('web_search', {
    ...call,
    params: {
      ...call.params,
      web_search_options: { ...search, ...(isObject(callOptions) ? callOptions : {}) },
    },
  })
}

/** What is kept of one choice of an answer. */
interface ReadChoice {
  words: string
  /** Where the last of them stand. */
  place: TextPlace
  /** The URLs that its annotations name already. */
  cited: Set<unknown>
}

/** Adds the sources of a search to each choice of an answer that has words, before its end. */
class SourceFilter implements AnswerFilter<TextPart> {
  readonly blocked: GatewayError | null = null
  readonly #sources: ToolSource[]
  readonly #choices = new Map<number, ReadChoice>()

  private constructor(sources: ToolSource[]) {
    this.#sources = sources
  }

  /** Creates the filter; null if there are no sources. */
  static create(sources: ToolSource[]): SourceFilter | null {
    return sources.length > 0 ? new SourceFilter(sources) : null
  }

  async read(parts: TextPart[]): Promise<TextPart[]> {
    return parts.flatMap(part => this.#readPart(part))
  }

  async end(): Promise<TextPart[]> {
    return []
  }

  #readPart(part: TextPart): TextPart[] {
    if (part.type === 'text-delta') this.#noteWords(part)
    if (part.type === 'annotation') this.#noteCited(part)
    return part.type === 'finish' ? [...this.#renderSources(part.choice), part] : [part]
  }

  #noteWords(part: Extract<TextPart, { type: 'text-delta' }>): void {
    const read = this.#getChoice(part.choice)
    read.words += part.text
    read.place = readPlace(part)
  }

  #noteCited({ choice, annotation }: Extract<TextPart, { type: 'annotation' }>): void {
    const citation = isObject(annotation) ? annotation.url_citation : undefined
    if (isObject(citation)) this.#getChoice(choice).cited.add(citation.url)
  }

  #renderSources(choice: number): TextPart[] {
    const { words, place, cited } = this.#getChoice(choice)
    if (words === '') return []
    return this.#sources
      .filter(({ url }) => !cited.has(url))
      .map(source => ({ ...renderSource(source, words, place), choice }) as TextPart)
  }

  #getChoice(choice: number): ReadChoice {
    const known = this.#choices.get(choice) ?? { words: '', place: {}, cited: new Set() }
    this.#choices.set(choice, known)
    return known
  }
}
