import type { TextPart } from '../../language/part.ts'
import type { ToolSource } from '../server-tool.ts'

/** Where in an answer its last words stand: dialects with items have sources beside their words. */
export type TextPlace = Pick<Extract<TextPart, { type: 'text-delta' }>, 'block' | 'item'>

/** Returns the place of a piece of text. */
export const readPlace = ({ block, item }: TextPlace): TextPlace => ({
  ...(block === undefined ? {} : { block }),
  ...(item === undefined ? {} : { item }),
})

/**
 * Renders a source as an annotation of an answer with these words. It stands where they first name
 * its URL, and at the beginning if they do not.
 */
export function renderSource(
  { url, title, text }: ToolSource,
  words: string,
  place: TextPlace,
): TextPart {
  const at = words.indexOf(url)
  const range = at === -1 ? [0, 0] : [at, at + url.length]
  const url_citation = {
    url,
    title: title ?? '',
    ...(text === undefined ? {} : { content: text }),
    start_index: range[0],
    end_index: range[1],
  }
  const annotation = { type: 'url_citation', url_citation }
  return { type: 'annotation', choice: 0, annotation, ...place }
}
