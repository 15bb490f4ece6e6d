import { getOwn, type Json } from '../../base/json.ts'
import type { FinishReason, TextPart } from '../../language/part.ts'
import { ENDS } from './ends.data.ts'
import { unreadableAnswer } from './failure.ts'

/**
 * The most alternatives, tool calls and open blocks that one answer may have. A provider that sends
 * more is broken, and must not make memory grow.
 */
const MAX_CHOICES = 128
export const MAX_CALLS = 128
export const MAX_OPEN = 128
/** The most pieces of calls in one event: it is refused by their number, before one is read. */
export const MAX_PIECES = 4_096

/** The most characters to hold back of anything that is passed on only when it is whole. */
export const MAX_HELD = 16 * 1024 * 1024

/**
 * Returns the alternative that an entry of an answer belongs to: its index, or its position if it
 * has none. Undefined for an index that no answer can have.
 */
export function readChoiceIndex(index: unknown, position: number): number | undefined {
  const choice = typeof index === 'number' ? index : position
  return Number.isInteger(choice) && choice >= 0 && choice < MAX_CHOICES ? choice : undefined
}

/** The finish reasons of a provider's own words, which its config has. */
export type OwnEnds = Record<string, FinishReason>

/** Why an answer ended. */
export type End = Pick<Extract<TextPart, { type: 'finish' }>, 'reason' | 'isUnknown'>

/**
 * Returns why an answer ended, by the word that its provider has for it; null for a word that says
 * that it goes on. No word at all is a stop. One that is not known is an error: what a server does
 * not explain may be a cut.
 */
export function readEnd(word: string | null, own: OwnEnds = {}): End | null {
  if (word === null) return STOP
  const usual = KNOWN_ENDS.get(word)
  if (usual !== undefined && !(word in own)) return usual
  const plain = toPlainWord(word)
  const reason = getOwn(own, word) ?? getOwn(own, plain)
  if (reason !== undefined) return { reason }
  const known = KNOWN_ENDS.get(plain)
  return known === undefined ? UNKNOWN : known
}

// As the table writes it: servers do not agree on cases and dashes.
const toPlainWord = (word: string): string => word.trim().toLowerCase().replace(/[- ]/g, '_')

const STOP: End = { reason: 'stop' }
const UNKNOWN: End = { reason: 'error', isUnknown: true }

const KNOWN_ENDS = new Map<string, End | null>(
  ENDS.flatMap(({ reason, words }) =>
    words.map((word): [string, End | null] => [word, reason === null ? null : { reason }]),
  ),
)

/** The number of unreadable events after which the whole stream counts as unreadable. */
const MAX_UNREADABLE = 20

/** Counts the events of one stream that could not be parsed. */
export class UnreadableEvents {
  #events = 0

  /** Skips one event, which has no parts. Throws `provider_unavailable` after too many. */
  skip(): never[] {
    this.#events += 1
    if (this.#events > MAX_UNREADABLE) throw unreadableAnswer()
    return []
  }
}

/** What is known about a source, and the range of the answer that cites it, in characters. */
interface CitationDetails {
  title?: unknown
  content?: unknown
  start_index?: unknown
  end_index?: unknown
}

/** Returns a source as the chat API shows it (wire reference C.2). Leaves out unknown fields. */
export function toUrlCitation(
  url: string,
  { title, content, start_index, end_index }: CitationDetails,
): Json {
  const known = Object.entries({ title, content, start_index, end_index }).filter(
    ([, value]) => value != null,
  )
  return { type: 'url_citation', url_citation: { url, ...Object.fromEntries(known) } }
}

/**
 * Whether the URL is the address of a web page. The chat API has no citation for any other source,
 * such as a document of the caller.
 */
export const isWebAddress = (url: string): boolean => /^https?:\/\//i.test(url)
