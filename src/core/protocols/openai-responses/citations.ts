import { type Json, text } from '../../kernel/json.ts'
import { urlCitation } from '../reader.ts'

/** A source as the chat API shows it; undefined for citations of files, which it has no form for. */
export function annotationOf(given: Json): unknown {
  const url = text(given.url)
  if (given.type !== 'url_citation' || url === null) return undefined
  return urlCitation(url, given)
}
