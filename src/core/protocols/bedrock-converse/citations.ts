import { isObject, type Json, member, objects, text } from '../../kernel/json.ts'
import { isWebAddress, urlCitation } from '../reader.ts'

/** The range of the answer's text that a source supports, in characters. */
export interface Place {
  start: number
  end: number
}

/**
 * Returns a citation as the chat API shows it, without a range while the text is still being
 * written. Null for a location in a document, which has no address.
 */
export function annotationOf(citation: Json, place: Place | null): unknown {
  const url = text(member(member(citation, 'location'), 'web').url) ?? text(citation.source)
  if (url === null || !isWebAddress(url)) return null
  const known = { title: text(citation.title), content: citedText(citation) || null }
  return urlCitation(url, { ...known, start_index: place?.start, end_index: place?.end })
}

/**
 * Bedrock's names of locations in documents, and the types and bounds that Anthropic's citations
 * use for them.
 */
const PLACES: [name: string, type: string, first: string, last: string][] = [
  ['documentChar', 'char_location', 'start_char_index', 'end_char_index'],
  ['documentPage', 'page_location', 'start_page_number', 'end_page_number'],
  ['documentChunk', 'content_block_location', 'start_block_index', 'end_block_index'],
]

/**
 * Returns a citation as Anthropic's API shows it, for clients of that dialect. Undefined for a
 * location that it has no form for.
 */
export function citationOf(citation: Json): Json | undefined {
  const location = member(citation, 'location')
  const cited_text = citedText(citation)
  const found = PLACES.find(([name]) => isObject(location[name]))
  if (found) return placeOf(member(location, found[0]), found, cited_text, text(citation.title))
  const url = text(member(location, 'web').url)
  return url === null
    ? undefined
    : { type: 'web_search_result_location', cited_text, url, title: text(citation.title) }
}

function placeOf(
  { documentIndex, start, end }: Json,
  [, type, first, last]: (typeof PLACES)[number],
  cited_text: string,
  title: string | null,
) {
  return {
    type,
    cited_text,
    document_index: documentIndex,
    document_title: title,
    [first]: start,
    [last]: end,
  }
}

const citedText = ({ sourceContent }: Json): string =>
  objects(sourceContent)
    .map(one => text(one.text) ?? '')
    .join('')
