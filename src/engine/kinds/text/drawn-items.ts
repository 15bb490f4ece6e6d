import { detectImageType } from '../../../base/data-url.ts'
import { isObject } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block } from '../../../language/message.ts'

/**
 * Returns the call with the pictures that its model has drawn as pictures. The Responses API shows
 * those of any model as items of OpenAI's own tool; where the model draws in its turns, they are a
 * part of what it has said.
 */
export const restoreDrawn = (call: TextCall): TextCall => ({
  ...call,
  messages: call.messages.map(message =>
    message.role === 'assistant' && message.blocks.some(({ type }) => type === 'other')
      ? { ...message, blocks: message.blocks.map(restorePicture) }
      : message,
  ),
})

function restorePicture(block: Block): Block {
  const { type, result } = block.type === 'other' && isObject(block.value) ? block.value : {}
  if (type !== 'image_generation_call' || typeof result !== 'string') return block
  const media_type = detectImageType(result)
  return media_type ? { type: 'image', url: `data:${media_type};base64,${result}` } : block
}
