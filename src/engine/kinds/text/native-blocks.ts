import { isObject, type Json, readObject, readObjects, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block, Message } from '../../../language/message.ts'

/**
 * Blocks of Anthropic's API that other providers have no form for, in a conversation that goes on
 * at one of them. What a provider's own tools did is left out: the model's words after it tell it.
 * What has words says them. Anything else of the user stays, and protocols refuse it by its name.
 */

/** Returns the call with what other providers understand in place of such blocks. */
export function replaceNativeBlocks(call: TextCall): TextCall {
  if (call.dialect !== 'messages' || !call.messages.some(hasNative)) return call
  return { ...call, messages: call.messages.flatMap(replaceInMessage) }
}

type NativeBlock = Extract<Block, { type: 'other' }> & { value: Json }

const isNative = (block: Block): block is NativeBlock =>
  block.type === 'other' && block.dialect === 'messages' && isObject(block.value)

const hasNative = ({ blocks }: Message): boolean => blocks.some(isNative)

function replaceInMessage(message: Message): Message[] {
  if (!hasNative(message)) return [message]
  const isOfModel = message.role === 'assistant'
  const blocks = message.blocks.flatMap((block): Block[] => {
    if (!isNative(block)) return [block]
    const words = WORDS[String(block.value.type)]?.(block.value)
    return words ?? (isOfModel ? [] : [block])
  })
  // A turn in which the model only used tools of its provider.
  return isOfModel && blocks.length === 0 ? [] : [{ ...message, blocks }]
}

const toText = (lines: unknown[]): Block[] => {
  const text = lines.filter(line => typeof line === 'string' && line !== '').join('\n')
  return text === '' ? [] : [{ type: 'text', text }]
}

const listTexts = (content: unknown): string[] =>
  typeof content === 'string'
    ? [content]
    : readObjects(content).flatMap(({ text }) => readString(text) ?? [])

const listPictures = (content: unknown): Block[] =>
  readObjects(content).flatMap(({ source: given }) => {
    const { type, url, media_type, data } = isObject(given) ? given : {}
    if (type === 'url' && typeof url === 'string') return [{ type: 'image', url }]
    return type === 'base64' ? [{ type: 'image', url: `data:${media_type};base64,${data}` }] : []
  })

/** What blocks of these types say, in the words and pictures of any model. */
const WORDS: Record<string, (block: Json) => Block[]> = {
  compaction: ({ content }) => toText([content]),
  search_result: ({ title, source, content }) => toText([title, source, ...listTexts(content)]),
  tool_reference: ({ tool_name }) => toText([tool_name]),
  document(block) {
    const { content } = readObject(block, 'source')
    const lines = [block.title, block.context, ...listTexts(content)]
    return [...toText(lines), ...listPictures(content)]
  },
}
