/** The messages of a conversation and their content blocks. */

import type { TextDialect } from './dialect.ts'
import type { ReasoningDetail } from './reasoning.ts'

export type Role = 'system' | 'developer' | 'user' | 'assistant' | 'tool'

/** One message of a conversation. `extra` holds the fields that the gateway does not know. */
export interface Message {
  role: Role
  blocks: Block[]
  name?: string
  /** The id of the tool call that a message of role `tool` answers. */
  tool_call_id?: string
  /** The model that produced the message, as the client reports it. */
  model?: string
  /** Whether the tool failed. The blocks then describe the failure. */
  is_error?: boolean
  /** Marks the end of a tool's whole answer as the end of a cached prefix. */
  cache_control?: CacheControl
  extra?: Record<string, unknown>
}

/** Asks the provider to cache the conversation up to here. Not every provider needs to be asked. */
export interface CacheControl {
  type: 'ephemeral'
  ttl?: '5m' | '1h'
}

/** Where content stands in its request, such as `input.3.content.0`, for errors that name it. */
interface Placed {
  field?: string
}

export type Block =
  | { type: 'text'; text: string; cache_control?: CacheControl; extra?: Record<string, unknown> }
  /** A picture, by http(s) or data URL. */
  | ({
      type: 'image'
      url: string
      detail?: string
      cache_control?: CacheControl
      extra?: Record<string, unknown>
    } & Placed)
  /** Sound in base64; `format` as the chat API names it: `wav`, `mp3`. */
  | { type: 'audio'; data: string; format: string }
  | ({ type: 'video'; url: string; extra?: Record<string, unknown> } & Placed)
  /** A document: `file_data` is an http(s) or data URL, `file_id` a file stored at the provider. */
  | ({
      type: 'file'
      file: { filename?: string; file_data?: string; file_id?: string }
      citations?: boolean
      /** What the document says, for models that do not read it themselves. */
      parsed?: ParsedFile
      cache_control?: CacheControl
      extra?: Record<string, unknown>
    } & Placed)
  /** `input` is the raw JSON text of the arguments. */
  | {
      type: 'tool-call'
      id: string
      name: string
      input: string
      cache_control?: CacheControl
      extra?: Record<string, unknown>
    }
  | { type: 'reasoning'; text: string | null; details: ReasoningDetail[] | null }
  | { type: 'refusal'; text: string }
  /** Content that the gateway has no type for, exactly as the client of this dialect sent it. */
  | ({ type: 'other'; dialect: TextDialect; value: unknown } & Placed)

/** The words of a document, and what kind of document it is: `pdf`, `docx`, `text`. */
export interface ParsedFile {
  type: string
  blocks: Block[]
}

/**
 * Returns copies of the messages with each `name` moved into the text as `{name}: {content}`. Some
 * protocols have no such field (specification E9). The originals stay unchanged because another
 * endpoint may want the field.
 */
export const moveNamesIntoText = (messages: Message[]): Message[] => messages.map(moveNameIntoText)

// In a tool's message `name` is the tool and the text its output: a prefix would break its JSON.
function moveNameIntoText(message: Message): Message {
  if (message.name === undefined) return message
  const { name, ...rest } = message
  return message.role === 'tool' ? rest : prefixText(rest, name)
}

function prefixText(message: Message, name: string): Message {
  const textIndex = message.blocks.findIndex(block => block.type === 'text')
  if (textIndex === -1)
    return { ...message, blocks: [{ type: 'text', text: `${name}:` }, ...message.blocks] }
  return {
    ...message,
    blocks: message.blocks.map((block, i) =>
      i === textIndex && block.type === 'text'
        ? { ...block, text: `${name}: ${block.text}` }
        : block,
    ),
  }
}
