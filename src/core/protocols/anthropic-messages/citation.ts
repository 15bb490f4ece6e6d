import { type Json, text } from '../../kernel/json.ts'

/** Where in the answer the cited words stand, in characters. The end is not known while they are still being written. */
export interface Place {
  start: number
  end: number | null
}

/**
 * A citation as the chat API shows it (wire reference C.2). Null for a place in a document: there is a form for web pages only,
 * and a document that the caller sent has no address.
 */
export function annotationOf(citation: Json, { start, end }: Place): unknown {
  const url = text(citation.type === 'search_result_location' ? citation.source : citation.url)
  if (url === null || !/^https?:\/\//i.test(url)) return null
  const title = text(citation.title)
  const content = text(citation.cited_text)
  return {
    type: 'url_citation',
    url_citation: {
      url,
      ...(title === null ? {} : { title }),
      ...(content === null ? {} : { content }),
      ...(end === null ? {} : { start_index: start, end_index: end }),
    },
  }
}
