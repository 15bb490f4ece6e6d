import { getOwn, readString } from '../base/json.ts'

/**
 * A `reasoning_details` entry. Opaque, and kept byte for byte: signatures and encrypted data depend
 * on it.
 */
export type ReasoningDetail = Record<string, unknown> & { type: string }

/**
 * Appends an entry to those collected so far. The streamed pieces of one entry share their `type`
 * and `index` and are merged into that entry: texts are joined, and a signature ends it. Encrypted
 * entries arrive whole and stay unchanged.
 */
export function appendDetail(details: ReasoningDetail[], piece: ReasoningDetail): void {
  const last = details.at(-1)
  if (last && isContinuation(last, piece)) details[details.length - 1] = mergeDetails(last, piece)
  else details.push(piece)
}

const TEXT_FIELDS: Record<string, string> = {
  'reasoning.text': 'text',
  'reasoning.summary': 'summary',
}

function isContinuation(last: ReasoningDetail, piece: ReasoningDetail): boolean {
  if (
    !Object.hasOwn(TEXT_FIELDS, piece.type) ||
    last.type !== piece.type ||
    typeof last.signature === 'string'
  )
    return false
  if (last.index === undefined || last.index !== piece.index) return false
  return last.id == null || piece.id == null || last.id === piece.id
}

function mergeDetails(last: ReasoningDetail, piece: ReasoningDetail): ReasoningDetail {
  const textField = getOwn(TEXT_FIELDS, last.type) ?? ''
  const fields = Object.entries(piece).filter(([, value]) => value != null)
  return {
    ...last,
    ...Object.fromEntries(fields),
    [textField]: (readString(last[textField]) ?? '') + (readString(piece[textField]) ?? ''),
  }
}

/**
 * Separates two blocks of the reasoning of providers that speak the Responses API, each of which
 * begins with a heading. It belongs to neither, and is removed on the way back.
 */
export const BLOCK_SEPARATOR = '\n\n'

/** Whether a provider that speaks the Responses API made the entries of this format. */
export const isResponsesFormat = (format: unknown): boolean =>
  typeof format === 'string' && format.endsWith('-responses-v1')

/** Returns the text of a block of such an entry, without the separator before it. */
export const stripSeparator = (text: string, { index }: ReasoningDetail): string =>
  index !== 0 && text.startsWith(BLOCK_SEPARATOR) ? text.slice(BLOCK_SEPARATOR.length) : text
