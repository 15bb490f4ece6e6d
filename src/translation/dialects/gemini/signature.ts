import { isObject, type Json, parseObject, readObjects, readString } from '../../../base/json.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'

/**
 * What a provider wants back of its reasoning travels in `thoughtSignature`, the one field that
 * Google’s clients send back unread: the entries as they are, and the id of the call that has them,
 * as clients may drop ids. Google’s own signatures come bare where another gateway gave them.
 */

/** Marks what is packed here. */
const PACKED = 'gateway'

/** Google’s own entries (`protocols/gemini`). */
export const GOOGLE_FORMAT = 'google-gemini-v1'

/** Packs entries into a signature, for the call of this id or for a text. */
export const packDetails = (details: ReasoningDetail[], call: string | null): string =>
  Buffer.from(JSON.stringify({ [PACKED]: 1, call, details })).toString('base64')

/**
 * Unpacks the signature of a part: of the call that is known by this id now, or of a text. What was
 * not packed here is Google’s own.
 */
export function unpackDetails(signature: string, call: string | null): ReasoningDetail[] {
  const packed = readPacked(signature)
  if (!packed)
    return [
      {
        type: 'reasoning.encrypted',
        data: signature,
        format: GOOGLE_FORMAT,
        ...(call === null ? {} : { id: call }),
      },
    ]
  const before = readString(packed.call)
  return readObjects(packed.details).flatMap(entry => {
    const type = readString(entry.type)
    if (type === null) return []
    const isOfCall = call !== null && before !== null && entry.id === before
    return [{ ...entry, type, ...(isOfCall ? { id: call } : {}) }]
  })
}

function readPacked(signature: string): Json | undefined {
  // `{"gateway"` in base64.
  if (!signature.startsWith('eyJnYXRld2F5')) return undefined
  const value = parseObject(Buffer.from(signature, 'base64').toString())
  return isObject(value) && value[PACKED] === 1 ? value : undefined
}
