import { type Json, parseObject } from '../../../base/json.ts'
import type { Block } from '../../../language/message.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'

/** The format of Claude's reasoning in the public `reasoning_details` (wire reference C.2). */
const CLAUDE_FORMAT = 'anthropic-claude-v1'

/** Base64 contains no dot, so no signature of Anthropic's begins with this. */
const SEAL_PREFIX = 'sealed.'

/** Tells whether an entry is text; otherwise it is data that only its provider can read. */
export const isReadableEntry = ({ type }: ReasoningDetail): boolean =>
  type === 'reasoning.text' || type === 'reasoning.summary'

/** Reads the text of an entry. */
export function readEntryText({ text, summary }: Json): string {
  const words = text ?? summary
  return typeof words === 'string' ? words : ''
}

/**
 * Renders the signature of a thinking block. The fields that another provider's entry has besides
 * its text are sealed into it: clients send signatures back unchanged, and `toReasoningBlock` opens
 * them. Empty for an entry of text alone.
 */
export function renderSignature({ text: _, summary: __, ...rest }: Json): string {
  const { format, signature, id } = rest
  if (format === CLAUDE_FORMAT) return typeof signature === 'string' ? signature : ''
  return typeof signature === 'string' || typeof id === 'string' ? sealEntry(rest) : ''
}

/** Renders the data of a redacted block: Claude's own, or another provider's entry, sealed. */
export const renderRedactedData = (entry: ReasoningDetail): string =>
  entry.format === CLAUDE_FORMAT && typeof entry.data === 'string' ? entry.data : sealEntry(entry)

const sealEntry = (entry: Json) =>
  SEAL_PREFIX + Buffer.from(JSON.stringify(entry)).toString('base64url')

/**
 * Converts a thinking block that a client sent back. `index` is its position among such blocks of
 * the message.
 */
export function toReasoningBlock(thinking: string, signature: string, index: number): Block {
  if (signature === '') return { type: 'reasoning', text: thinking, details: null }
  const sealedEntry = openSealedEntry(signature)
  const words =
    sealedEntry?.type === 'reasoning.summary' ? { summary: thinking } : { text: thinking }
  const entry = sealedEntry
    ? { ...sealedEntry, ...words }
    : { type: 'reasoning.text', text: thinking, signature, format: CLAUDE_FORMAT, index }
  return { type: 'reasoning', text: thinking, details: [entry] }
}

/** Converts a redacted thinking block that a client sent back. */
export const toRedactedBlock = (data: string, index: number): Block => ({
  type: 'reasoning',
  text: null,
  details: [
    openSealedEntry(data) ?? { type: 'reasoning.encrypted', data, format: CLAUDE_FORMAT, index },
  ],
})

function openSealedEntry(seal: string): ReasoningDetail | undefined {
  if (!seal.startsWith(SEAL_PREFIX)) return undefined
  const entry = parseObject(Buffer.from(seal.slice(SEAL_PREFIX.length), 'base64url').toString())
  return typeof entry?.type === 'string' ? { ...entry, type: entry.type } : undefined
}
