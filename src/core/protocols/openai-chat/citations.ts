import { isObject, type Json, objects, text } from '../../kernel/json.ts'
import { urlCitation } from '../reader.ts'

/**
 * The sources that a server names beside its choices, in the form in which OpenAI's own stand within a message: a list of what
 * was found (Perplexity's `search_results`), or of bare addresses (`citations`).
 */
export function sourcesOf({ search_results, citations }: Json): Json[] {
  const found = objects(search_results).flatMap(({ url, title }) => citation(url, title))
  if (found.length > 0) return found
  return (Array.isArray(citations) ? citations : []).flatMap(source =>
    isObject(source) ? citation(source.url, source.title) : citation(source),
  )
}

function citation(url: unknown, title?: unknown): Json[] {
  if (typeof url !== 'string' || !URL.canParse(url)) return []
  return [urlCitation(url, { title: text(title) ?? url })]
}
