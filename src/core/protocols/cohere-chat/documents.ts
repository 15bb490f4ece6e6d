import { invalid } from '../../errors.ts'
import { dataUrl, isDataUrl, textOf } from '../../kernel/data-url.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'

type File = Extract<Block, { type: 'file' }>['file']

/** The documents that the answer may cite: what the caller named as such, and the files of the conversation that are text. */
export function documentsOf({ turns, extra: { documents: given } }: TextCall): unknown[] {
  const files = turns.flatMap(({ blocks }) => blocks).filter(block => block.type === 'file')
  return [...(Array.isArray(given) ? given : []), ...files.map(({ file }) => documentOf(file))]
}

// Cohere reads words only: what the picture of a page says it cannot know.
function documentOf({ filename, file_data }: File) {
  const file = file_data !== undefined && isDataUrl(file_data) ? dataUrl(file_data, 'file_data') : undefined
  if (!file || !TEXTUAL.test(file.media_type)) throw invalid('file: expected a file of text for this model’s provider', 'file')
  return { data: { ...(filename === undefined ? {} : { title: filename }), text: textOf(file) } }
}

const TEXTUAL = /^text\/|[/+](json|xml|yaml)$/
