import type { TextPart } from '../../language/part.ts'
import type { ToolSource } from '../server-tool.ts'

/**
 * Renders a source as an annotation of an answer with these words. It stands where they first name
 * its URL, and at the beginning if they do not.
 */
export function renderSource({ url, title, text }: ToolSource, words: string): TextPart {
  const at = words.indexOf(url)
  const place = at === -1 ? [0, 0] : [at, at + url.length]
  const url_citation = {
    url,
    title: title ?? '',
    ...(text === undefined ? {} : { content: text }),
    start_index: place[0],
    end_index: place[1],
  }
  return { type: 'annotation', choice: 0, annotation: { type: 'url_citation', url_citation } }
}
