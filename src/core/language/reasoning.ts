import { own, text } from '../kernel/json.ts'

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
export function addDetail(details: ReasoningDetail[], piece: ReasoningDetail): void {
  const last = details.at(-1)
  if (last && isContinued(last, piece)) details[details.length - 1] = joined(last, piece)
  else details.push(piece)
}

const WORDS: Record<string, string> = { 'reasoning.text': 'text', 'reasoning.summary': 'summary' }

function isContinued(last: ReasoningDetail, piece: ReasoningDetail): boolean {
  if (
    !Object.hasOwn(WORDS, piece.type) ||
    last.type !== piece.type ||
    typeof last.signature === 'string'
  )
    return false
  if (last.index === undefined || last.index !== piece.index) return false
  return last.id == null || piece.id == null || last.id === piece.id
}

function joined(last: ReasoningDetail, piece: ReasoningDetail): ReasoningDetail {
  const name = own(WORDS, last.type) ?? ''
  const said = Object.entries(piece).filter(([, value]) => value != null)
  return {
    ...last,
    ...Object.fromEntries(said),
    [name]: (text(last[name]) ?? '') + (text(piece[name]) ?? ''),
  }
}
