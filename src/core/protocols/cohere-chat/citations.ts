import { count, isObject, type Json, member, objects, text } from '../../kernel/json.ts'
import { isWebAddress, urlCitation } from '../reader.ts'

/**
 * A citation in the chat API's form, once for each of its sources. The chat API knows sources on the web only: what cites a
 * document without an address has no form there, and is left out.
 */
export function annotationsOf(citation: Json): Json[] {
  if (citation.type === 'PLAN' || citation.type === 'THINKING_CONTENT') return []
  return objects(citation.sources).flatMap(source => {
    const document = isObject(source.document) ? source.document : member(source, 'tool_output')
    const url = text(document.url)
    if (url === null || !isWebAddress(url) || !URL.canParse(url)) return []
    return [urlCitation(url, { title: text(document.title) ?? url, ...placeOf(citation) })]
  })
}

/** Where in the text it stands. */
function placeOf({ start, end }: Json): Json {
  const start_index = count(start)
  const end_index = count(end)
  return start_index === undefined || end_index === undefined ? {} : { start_index, end_index }
}
