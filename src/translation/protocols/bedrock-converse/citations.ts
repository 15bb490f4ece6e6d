import { isObject, type Json, readObject, readObjects, readString } from '../../../base/json.ts'
import { isWebAddress, toUrlCitation } from '../reader.ts'

/** The range of the answer's text that a source supports, in characters. */
export interface TextRange {
  start: number
  end: number
}

/**
 * Returns a citation as the chat API shows it, without a range while the text is still being
 * written. Null for a location in a document, which has no address.
 */
export function toAnnotation(citation: Json, range: TextRange | null): unknown {
  const url =
    readString(readObject(readObject(citation, 'location'), 'web').url) ??
    readString(citation.source)
  if (url === null || !isWebAddress(url)) return null
  const details = { title: readString(citation.title), content: joinCitedText(citation) || null }
  return toUrlCitation(url, { ...details, start_index: range?.start, end_index: range?.end })
}

/**
 * Bedrock's names of locations in documents, and the types and bounds that Anthropic's citations
 * use for them.
 */
const LOCATION_TYPES: [name: string, type: string, first: string, last: string][] = [
  ['documentChar', 'char_location', 'start_char_index', 'end_char_index'],
  ['documentPage', 'page_location', 'start_page_number', 'end_page_number'],
  ['documentChunk', 'content_block_location', 'start_block_index', 'end_block_index'],
]

/**
 * Returns a citation as Anthropic's API shows it, for clients of that dialect. Undefined for a
 * location that it has no form for.
 */
export function toAnthropicCitation(citation: Json): Json | undefined {
  const location = readObject(citation, 'location')
  const cited_text = joinCitedText(citation)
  const locationType = LOCATION_TYPES.find(([name]) => isObject(location[name]))
  if (locationType)
    return toAnthropicLocation(
      readObject(location, locationType[0]),
      locationType,
      cited_text,
      readString(citation.title),
    )
  const url = readString(readObject(location, 'web').url)
  return url === null
    ? undefined
    : { type: 'web_search_result_location', cited_text, url, title: readString(citation.title) }
}

function toAnthropicLocation(
  { documentIndex, start, end }: Json,
  [, type, first, last]: (typeof LOCATION_TYPES)[number],
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

const joinCitedText = ({ sourceContent }: Json): string =>
  readObjects(sourceContent)
    .map(piece => readString(piece.text) ?? '')
    .join('')
