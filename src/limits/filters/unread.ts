import { isDataUrl } from '../../base/data-url.ts'
import { isObject, isRawJson, type Json } from '../../base/json.ts'
import type { Work } from '../../base/turns.ts'
import { PROTOCOL_WORDS } from './protocol-words.data.ts'
import { redactText } from './redact.ts'
import type { Match } from './rule.ts'

/** Texts that need not be read. */
interface KnownTexts {
  has(text: string): boolean
  add(text: string): unknown
}

/** What the last gate found in a value that is about to leave. */
export interface GateResult<V> {
  /** The value without what is redacted; the value itself if nothing is. */
  value: V
  found: { match: Match; text: string }[]
}

/**
 * Looks at every string of a value that no filter has read before, names and long numbers included,
 * as the receiver will read it: whatever a protocol has decoded, joined or moved is read again.
 * Strings in `known` were read before. Media in base64 and data URLs are not read.
 */
export function* filterUnread<V>(
  value: V,
  scanner: { isClean(text: string): boolean; scan(text: string): Work<Match[]> },
  known: KnownTexts,
): Work<GateResult<V>> {
  const found: GateResult<V>['found'] = []
  const replacements = new Map<string, string>()
  for (const text of yield* collectTexts(value, known)) {
    const matches = scanner.isClean(text) ? NO_MATCHES : yield* scanner.scan(text)
    for (const match of matches) {
      found.push({ match, text })
      yield
    }
    const redacted = matches.length > 0 ? yield* redactText(text, matches) : text
    if (redacted !== text) replacements.set(text, redacted)
    known.add(redacted)
    yield
  }
  return { value: replacements.size > 0 ? (replaceTexts(value, replacements) as V) : value, found }
}

const NO_MATCHES: Match[] = []

const ITEMS_AT_ONCE = 1_000

/** Collects the strings of a value that are neither known nor words of a protocol. */
function* collectTexts(value: unknown, known: KnownTexts): Work<Set<string>> {
  const texts = new Set<string>()
  const add = (text: string, name = '') => {
    if (!known.has(text) && !PROTOCOL_WORDS.has(text) && !isMedia(text, name)) texts.add(text)
  }
  const waiting: unknown[] = [value]
  const addMember = (member: unknown, name?: string) => {
    const text = readText(member)
    if (text !== null) add(text, name)
    else if (typeof member === 'object' && member !== null) waiting.push(member)
  }
  for (let count = 0; waiting.length > 0; count++) {
    const next = waiting.pop()
    if (Array.isArray(next)) for (const member of next) addMember(member)
    else
      for (const name of Object.keys(next as Json)) {
        add(name)
        addMember((next as Json)[name], name)
      }
    if (count % ITEMS_AT_ONCE === 0) yield
  }
  return texts
}

/** Returns a string, or a whole number that is long enough to be one that people have. */
function readText(value: unknown): string | null {
  if (typeof value === 'string') return value
  if (typeof value === 'number')
    return Number.isSafeInteger(value) && value >= SHORTEST_NUMBER ? String(value) : null
  return isRawJson(value) ? JSON.stringify(value) : null
}

const SHORTEST_NUMBER = 100_000_000

/** The members that hold bytes. */
const BYTES = new Set([
  'data',
  'bytes',
  'signature',
  'thoughtSignature',
  'thought_signature',
  'encrypted_content',
  'redactedContent',
])
const BASE64 = /^[\w+/-]{64}[\w+/-]*={0,2}$/

const isMedia = (text: string, name: string): boolean =>
  isDataUrl(text) || (BYTES.has(name) && BASE64.test(text))

/** Returns a copy in which each of these strings is replaced, as a value and as a name. */
function replaceTexts(value: unknown, replacements: Map<string, string>): unknown {
  const text = readText(value)
  if (text !== null) return replacements.get(text) ?? value
  if (Array.isArray(value)) return value.map(item => replaceTexts(item, replacements))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      replacements.get(name) ?? name,
      replaceTexts(member, replacements),
    ]),
  )
}
