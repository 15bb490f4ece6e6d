import { type Json, text } from '../../kernel/json.ts'

/** A source as the chat API shows it; undefined for citations of files, which it has no form for. */
export function annotationOf(given: Json): unknown {
  const url = text(given.url)
  if (given.type !== 'url_citation' || url === null) return undefined
  const { title, content, start_index, end_index } = given
  const told = Object.entries({ title, content, start_index, end_index }).filter(([, value]) => value != null)
  return { type: 'url_citation', url_citation: { url, ...Object.fromEntries(told) } }
}
