import { type Json, text } from '../../kernel/json.ts'
import { isWebAddress, urlCitation } from '../reader.ts'

/** Where in the answer the cited words stand, in characters. The end is not known while they are still being written. */
export interface Place {
  start: number
  end: number | null
}

/**
 * A citation as the chat API shows it or null for a place in a document.
 */
export function annotationOf(citation: Json, { start, end }: Place): unknown {
  const url = text(citation.type === 'search_result_location' ? citation.source : citation.url)
  if (url === null || !isWebAddress(url)) return null
  const place = end === null ? {} : { start_index: start, end_index: end }
  return urlCitation(url, { title: text(citation.title), content: text(citation.cited_text), ...place })
}
