import { isDataUrl, plainTextIn } from '../../kernel/data-url.ts'
import { isObject, type Json, text } from '../../kernel/json.ts'
import type { Block } from '../../language/message.ts'
import { foreignContent } from '../foreign.ts'
import { isNative } from '../native.ts'
import { NATIVE } from './native.ts'

/** The kinds of content that stand in a message or in a result; whatever else a client of this dialect sends is an item. */
const CONTENT = new Set(['input_text', 'input_image', 'input_file', 'input_audio', 'input_video', 'output_text', 'refusal'])

/** Whether the block is an item of the input rather than content of a message. */
export const isItem = (block: Block): block is Extract<Block, { type: 'other' }> =>
  block.type === 'other' && !(isNative(block, NATIVE) && isContentValue(block.value))

const isContentValue = (value: unknown) => isObject(value) && CONTENT.has(text(value.type) ?? '')

/** Whether the block is said, and not a call or a thought. */
export const isContent = ({ type }: Block): boolean => type !== 'tool-call' && type !== 'reasoning'

/** The block as content of a message of this role; nothing for an empty text of the model's own, which says nothing. */
export function contentOf(block: Block, role: string): Json[] {
  switch (block.type) {
    case 'text':
      return textOf(block, role)
    case 'refusal':
      return [{ type: 'refusal', refusal: block.text }]
    case 'image':
      return [{ type: 'input_image', image_url: block.url, detail: block.detail ?? 'auto' }]
    case 'audio':
      return [{ type: 'input_audio', input_audio: { data: block.data, format: block.format } }]
    case 'file':
      return [fileOf(block.file)]
    case 'video':
      return [{ type: 'input_video', video_url: block.url }]
    case 'other':
      return [ownOf(block)]
    default:
      return []
  }
}

function textOf({ text: said, extra }: Extract<Block, { type: 'text' }>, role: string): Json[] {
  if (role === 'assistant') return said === '' ? [] : [{ type: 'output_text', text: said }]
  const mark = extra?.prompt_cache_breakpoint
  return [{ type: 'input_text', text: said, ...(mark === undefined ? {} : { prompt_cache_breakpoint: mark }) }]
}

// A document of plain text is a text. OpenAI wants a name for every other file that comes with its data.
function fileOf({ file_data, file_id, filename }: Extract<Block, { type: 'file' }>['file']): Json {
  if (file_id !== undefined) return { type: 'input_file', file_id }
  if (file_data !== undefined && /^https?:/i.test(file_data)) return { type: 'input_file', file_url: file_data }
  const said = plainTextIn(file_data ?? '', 'messages')
  if (said !== undefined) return { type: 'input_text', text: filename === undefined ? said : `${filename}\n\n${said}` }
  return { type: 'input_file', filename: filename ?? nameFor(file_data), file_data }
}

const nameFor = (url = '') => (isDataUrl(url) && !/^data:application\/pdf[;,]/i.test(url) ? 'document' : 'document.pdf')

/** What a client of this dialect sent, as it came. Throws 400 for another dialect's. */
export function ownOf(block: Extract<Block, { type: 'other' }>): Json {
  if (isNative(block, NATIVE) && isObject(block.value)) return block.value
  throw foreignContent(block)
}
