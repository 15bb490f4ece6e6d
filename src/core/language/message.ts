/** The messages of a conversation and what they are made of. */

import type { TextDialect } from './dialect.ts'
import type { ReasoningDetail } from './reasoning.ts'

export type Role = 'system' | 'developer' | 'user' | 'assistant' | 'tool'

/** One message of the conversation. `extra` holds the fields we do not know. */
export interface Turn {
  role: Role
  blocks: Block[]
  name?: string
  /** Which call a tool's turn answers. */
  tool_call_id?: string
  /** Which model said it, as the client tells. */
  model?: string
  /** The tool failed, and its blocks say how. */
  is_error?: boolean
  /** Marks the end of a tool's whole answer. */
  cache_control?: CacheControl
  extra?: Record<string, unknown>
}

/** "Remember the conversation up to here", for the providers that are told. */
export interface CacheControl {
  type: 'ephemeral'
  ttl?: '5m' | '1h'
}

export type Block =
  | { type: 'text'; text: string; cache_control?: CacheControl; extra?: Record<string, unknown> }
  /** A picture, by http(s) or data URL. */
  | {
      type: 'image'
      url: string
      detail?: string
      cache_control?: CacheControl
      extra?: Record<string, unknown>
    }
  /** Sound in base64; `format` as the chat API names it: `wav`, `mp3`. */
  | { type: 'audio'; data: string; format: string }
  | { type: 'video'; url: string; extra?: Record<string, unknown> }
  /** A document: `file_data` is an http(s) or data URL, `file_id` a file that the provider knows. */
  | {
      type: 'file'
      file: { filename?: string; file_data?: string; file_id?: string }
      citations?: boolean
      cache_control?: CacheControl
      extra?: Record<string, unknown>
    }
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
  /** A kind of content we have no word for, exactly as the client of this dialect sent it. */
  | { type: 'other'; dialect: TextDialect; value: unknown }

/**
 * The turns with each `name` moved into its text as `{name}: {content}`, for protocols that have no field for it
 * (specification E9). The turns handed in stay as they are: another endpoint may want the field.
 */
export const namesInText = (turns: Turn[]): Turn[] => turns.map(withoutName)

// A tool's turn names the tool, and its text is the tool's own: a prefix would break its JSON.
function withoutName(turn: Turn): Turn {
  if (turn.name === undefined) return turn
  const { name, ...rest } = turn
  return turn.role === 'tool' ? rest : nameInText(rest, name)
}

function nameInText(turn: Turn, name: string): Turn {
  const at = turn.blocks.findIndex(block => block.type === 'text')
  if (at === -1) return { ...turn, blocks: [{ type: 'text', text: `${name}:` }, ...turn.blocks] }
  return {
    ...turn,
    blocks: turn.blocks.map((block, i) =>
      i === at && block.type === 'text' ? { ...block, text: `${name}: ${block.text}` } : block,
    ),
  }
}
