import type { Json } from '../kernel/json.ts'

/** What is known of a source besides its address, and where in the answer the words stand that rest on it, in characters. */
export interface Cited {
  title?: unknown
  content?: unknown
  start_index?: unknown
  end_index?: unknown
}

/** A source as the chat API shows it (wire reference C.2). What nobody knows of it is left out. */
export function urlCitation(url: string, { title, content, start_index, end_index }: Cited): Json {
  const known = Object.entries({ title, content, start_index, end_index }).filter(([, value]) => value != null)
  return { type: 'url_citation', url_citation: { url, ...Object.fromEntries(known) } }
}

/** Whether it is the address of a page. The chat API has a form for no other source: a document of the caller's has none. */
export const isWebAddress = (url: string): boolean => /^https?:\/\//i.test(url)
