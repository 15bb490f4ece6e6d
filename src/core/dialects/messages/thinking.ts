import { type Json, parseObject } from '../../kernel/json.ts'
import type { Block } from '../../language/message.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'

/** The format of Claude's reasoning in the public `reasoning_details` (wire reference C.2). */
const OWN_FORMAT = 'anthropic-claude-v1'

/** Base64 contains no dot, so no signature of Anthropic's begins with this. */
const SEAL = 'sealed.'

/** Tells whether an entry is text; otherwise it is data that only its provider can read. */
export const isWords = ({ type }: ReasoningDetail): boolean =>
  type === 'reasoning.text' || type === 'reasoning.summary'

/** Reads the text of an entry. */
export function wordsOf({ text, summary }: Json): string {
  const words = text ?? summary
  return typeof words === 'string' ? words : ''
}

/**
 * Renders the signature of a thinking block. The fields that another provider's entry has besides
 * its text are sealed into it: clients send signatures back unchanged, and `toReasoningBlock` opens
 * them. Empty for an entry of text alone.
 */
export function signatureOf({ text: _, summary: __, ...rest }: Json): string {
  const { format, signature, id } = rest
  if (format === OWN_FORMAT) return typeof signature === 'string' ? signature : ''
  return typeof signature === 'string' || typeof id === 'string' ? sealed(rest) : ''
}

/** Renders the data of a redacted block: Claude's own, or another provider's entry, sealed. */
export const dataOf = (entry: ReasoningDetail): string =>
  entry.format === OWN_FORMAT && typeof entry.data === 'string' ? entry.data : sealed(entry)

const sealed = (entry: Json) => SEAL + Buffer.from(JSON.stringify(entry)).toString('base64url')

/**
 * Converts a thinking block that a client sent back. `index` is its position among such blocks of
 * the message.
 */
export function reasoningOf(thinking: string, signature: string, index: number): Block {
  if (signature === '') return { type: 'reasoning', text: thinking, details: null }
  const rest = opened(signature)
  const words = rest?.type === 'reasoning.summary' ? { summary: thinking } : { text: thinking }
  const entry = rest
    ? { ...rest, ...words }
    : { type: 'reasoning.text', text: thinking, signature, format: OWN_FORMAT, index }
  return { type: 'reasoning', text: thinking, details: [entry] }
}

/** Converts a redacted thinking block that a client sent back. */
export const redactedOf = (data: string, index: number): Block => ({
  type: 'reasoning',
  text: null,
  details: [opened(data) ?? { type: 'reasoning.encrypted', data, format: OWN_FORMAT, index }],
})

function opened(seal: string): ReasoningDetail | undefined {
  if (!seal.startsWith(SEAL)) return undefined
  const entry = parseObject(Buffer.from(seal.slice(SEAL.length), 'base64url').toString())
  return typeof entry?.type === 'string' ? { ...entry, type: entry.type } : undefined
}
