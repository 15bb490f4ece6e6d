import { getOwn, isObject, type Json, parseCount, readObject } from '../../base/json.ts'
import type { FinishReason, TextPart } from '../../language/part.ts'
import {
  createImpossibleUsage,
  createTextUsage,
  readUnits,
  type Usage,
} from '../../language/usage.ts'
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

/** The names of fields that count, whatever the provider: `prompt_tokens`, `promptTokenCount`, … */
const COUNT_NAME = /(?:tokens?|tokencount|requests|queries|search_units)$/i

/** The deepest object within a usage, and the most fields, that are looked at. */
const DEEPEST = 4
const MAX_FIELDS = 10_000

/**
 * Makes a reader of usages that returns an impossible one where any count is negative, a fraction,
 * absurdly large or no number at all. A count that is null or missing is only missing.
 */
export const refuseImpossibleCounts =
  <Rest extends unknown[]>(read: (usage: Json, ...rest: Rest) => Usage | undefined) =>
  (usage: unknown, ...rest: Rest): Usage | undefined => {
    if (!isObject(usage)) return undefined
    return hasImpossibleCount(usage) ? createImpossibleUsage() : read(usage, ...rest)
  }

function hasImpossibleCount(usage: Json): boolean {
  let open: unknown[] = [usage]
  let fields = 0
  for (let depth = 0; depth < DEEPEST && open.length > 0; depth++) {
    const deeper: unknown[] = []
    for (const holder of open as Json[])
      for (const name in holder) {
        const value = holder[name]
        if (++fields > MAX_FIELDS) return true
        if (typeof value === 'object' && value !== null) deeper.push(value)
        // In this order: most values are counts.
        else if (value != null && parseCount(value) === undefined && COUNT_NAME.test(name))
          return true
      }
    open = deeper
  }
  return false
}

/** Where servers of vectors and rankings count what they were given, the surest first. */
const TOKENS = [
  'usage.total_tokens',
  'usage.prompt_tokens',
  'usage.input_tokens',
  'usage.tokens',
  'meta.billed_units.input_tokens',
  'meta.tokens.input_tokens',
  'usageMetadata.promptTokenCount',
  'usageMetadata.totalTokenCount',
  'inputTextTokenCount',
  'inputTokenCount',
  'total_tokens',
  'prompt_tokens',
  'input_tokens',
  'prompt_eval_count',
].map(path => path.split('.'))

/** Counts that come on top of those tokens. */
const MORE_TOKENS = ['meta', 'billed_units', 'image_tokens']

const UNITS = [
  ['usage', 'search_units'],
  ['meta', 'billed_units', 'search_units'],
]

/** The fields of an answer that have counts, or are one. */
const HOLDERS = [...new Set([...TOKENS, ...UNITS].map(([name = '']) => name))]

/**
 * Finds every count of an answer of vectors or rankings, whatever its server calls it: tokens of
 * input, and ranking units. Undefined where there is none.
 */
export function findCounts(answer: Json): Usage | undefined {
  const counts: Json = {}
  for (const name of HOLDERS) if (answer[name] != null) counts[name] = answer[name]
  return readCounts(counts)
}

const readCounts = refuseImpossibleCounts(counts => {
  const units = findCount(counts, UNITS)
  const found = findCount(counts, TOKENS)
  const more = readPath(counts, MORE_TOKENS)
  if (units === undefined && found === undefined && more === undefined) return undefined
  const usage = createTextUsage((found ?? 0) + (more ?? 0), 0)
  return units === undefined ? usage : { ...usage, ...readUnits({ search_unit: units }) }
})

/** Returns the first count of these that is more than none, or else the first. */
function findCount(counts: Json, paths: string[][]): number | undefined {
  const found = paths.flatMap(path => readPath(counts, path) ?? [])
  return found.find(count => count > 0) ?? found[0]
}

function readPath(value: Json, path: string[]): number | undefined {
  const [name = '', ...rest] = path
  if (rest.length === 0) return parseCount(value[name])
  return isObject(value[name]) ? readPath(readObject(value, name), rest) : undefined
}
