import { isDataUrl } from '../../base/data-url.ts'
import { isObject, isRawJson, type Json } from '../../base/json.ts'
import { handleEach, ITEMS_AT_ONCE, runAtOnce, runInTurns, type Work } from '../../base/turns.ts'
import type { Span } from '../patterns/machine.ts'
import { searchText, TextSearch } from '../patterns/search.ts'
import type { Anchor } from '../patterns/start-search.ts'
import { LONGEST_ENCODED, mayBeDisguised, PlainReading } from './disguises.ts'
import { MatchIndex } from './match-index.ts'
import { findUnusual, isPlainAscii, NormalForm } from './normal-form.ts'
import { PROTOCOL_WORDS } from './protocol-words.data.ts'
import { redactText } from './redact.ts'
import { type CompiledDetector, type CompiledRule, listSpans, type Match } from './rule.ts'
import { LONGEST_HELD, StreamScanner } from './stream-scanner.ts'

/** Several rules that search the same texts. */
export class FilterSet {
  /** Whether a text may be changed or blocked. */
  readonly alters: boolean
  readonly rules: CompiledRule[]
  /** How many instructions of patterns ran over whole texts. */
  steps = 0
  /** The anchors of all rules; null if some rule finds a match without one. */
  readonly #anchors: Anchor[] | null

  constructor(rules: CompiledRule[]) {
    this.rules = rules
    this.alters = rules.some(({ action }) => action !== 'flag')
    this.#anchors = listAnchors(rules)
  }

  /**
   * Whether a short text certainly has no match: it is plain ASCII, nothing in it is disguised, and
   * no anchor is in it. One look decides that of most texts, where `scan` prepares a search for each
   * rule.
   */
  isClean(text: string): boolean {
    if (!this.#anchors || text.length > LOOKED_AT_ONCE || !isPlainAscii(text)) return false
    for (const anchor of this.#anchors) if (anchor.find(text, 0, text.length) !== -1) return false
    return !mayBeDisguised(text)
  }

  /** Finds all matches in a whole text, rule by rule. Long texts take `search`. */
  find(text: string): Match[] {
    return runAtOnce(this.scan(text))
  }

  /** Finds the same, and lets others have their turn. */
  search(text: string): Promise<Match[]> {
    return runInTurns(this.scan(text))
  }

  /** Reads and redacts every string of a value that is about to leave and that is not known. */
  filterUnread<V>(value: V, known: Set<string> = new Set()): Work<GateResult<V>> {
    return filterUnread(value, this, known)
  }

  /** Creates a scanner for a text as it streams. `onMatch` is called for each match in it. */
  createScanner(onMatch: (match: Match) => void): StreamScanner {
    return new StreamScanner(this.rules, onMatch)
  }

  /** Finds the same as a work that can be interrupted. */
  *scan(text: string): Work<Match[]> {
    const found = yield* this.scanWritten(text)
    if (yield* isDisguised(text)) yield* this.#addMatches(text, new PlainReading(), found)
    return found
  }

  /** Finds what is in a text as written and in its normal form, whatever a receiver may decode. */
  *scanWritten(text: string): Work<Match[]> {
    const found: Match[] = []
    for (const rule of this.rules) {
      if (rule.find)
        yield* handleEach(yield* rule.find(text), ({ start, end }) =>
          found.push({ rule, start, end }),
        )
      yield* this.#scanDetectors(rule, text, found)
    }
    if (yield* isChanged(text)) yield* this.#addMatches(text, new NormalForm(), found)
    return found
  }

  *#scanDetectors(rule: CompiledRule, text: string, found: Match[]): Work<void> {
    for (const detector of rule.detectors)
      this.steps += yield* scanWith(rule, detector, text, found)
  }

  /** Adds the matches that are only seen in another form of the text. */
  *#addMatches(text: string, form: NormalForm | PlainReading, found: Match[]): Work<void> {
    const search = new FormSearch(this.rules, form)
    yield* search.read(text)
    this.steps += search.steps
    const known = yield* MatchIndex.create(found)
    yield* handleEach(search.found, match => {
      if (!known.includes(match.rule, match)) found.push(match)
    })
  }
}

/** Lists the anchors of rules; null if one of them has a detector without. */
function listAnchors(rules: CompiledRule[]): Anchor[] | null {
  const anchors: Anchor[] = []
  for (const { find, detectors } of rules) {
    if (find) return null
    for (const { anchor } of detectors) {
      if (!anchor) return null
      anchors.push(anchor)
    }
  }
  return anchors
}

/** Adds the matches of one detector. Returns how many instructions ran. */
function* scanWith(
  rule: CompiledRule,
  { program, accepts, findSpans, anchor }: CompiledDetector,
  text: string,
  found: Match[],
): Work<number> {
  const candidates: Span[] = []
  const onMatch = (start: number, end: number) => {
    if (accepts && !accepts(text, start, end)) return
    if (findSpans) candidates.push({ start, end })
    else found.push({ rule, start, end })
  }
  const steps = yield* searchText(program, text, onMatch, anchor)
  let count = 0
  for (const { start, end } of candidates) {
    for (const span of findSpans?.(text.slice(start, end)) ?? []) {
      if (span) found.push({ rule, start: start + span.start, end: start + span.end })
      if (++count % ITEMS_AT_ONCE === 0) yield
    }
    if (++count % ITEMS_AT_ONCE === 0) yield
  }
  return steps
}

/** How much of a text is normalised at once, so that memory does not grow with the text. */
const BLOCK = 131_072
/** Others may have their turn after this much of it. */
const SLICE = 16_384
/** Or after this much of it where each character may be an escape. */
const READ_AT_ONCE = 4_096
/** Or after so much that is only looked at. */
const LOOKED_AT = 65_536
/** In so short a text anchors are sought without a pause. */
const LOOKED_AT_ONCE = 16_384

/** Tells whether a text differs from its normal form. */
function* isChanged(text: string): Work<boolean> {
  if (!(yield* mayChange(text))) return false
  const form = new NormalForm()
  for (let offset = 0; offset < text.length && form.firstChange === null; offset += SLICE) {
    form.read(text.slice(offset, offset + SLICE), offset + SLICE >= text.length)
    yield
  }
  return form.firstChange !== null
}

/** Tells whether something of a text may differ in its normal form. Few texts have any of it. */
function* mayChange(text: string): Work<boolean> {
  for (let from = 0; from < text.length; from += LOOKED_AT) {
    const slice = text.slice(from, from + LOOKED_AT)
    if (!isPlainAscii(slice) && findUnusual(slice, 0, slice.length) < slice.length) return true
    yield
  }
  return false
}

/** Tells whether something of a text may be disguised. */
function* isDisguised(text: string): Work<boolean> {
  for (let from = 0; from < text.length; from += LOOKED_AT) {
    // What is cut by the end of one slice is whole in the next.
    if (mayBeDisguised(text.slice(Math.max(0, from - LONGEST_ENCODED), from + LOOKED_AT)))
      return true
    yield
  }
  return false
}

/** Searches another form of a text, block by block. */
class FormSearch {
  readonly found: Match[] = []
  readonly #form: NormalForm | PlainReading
  readonly #searches: { search: TextSearch; emit(): Work<void> }[]
  #finders: { rule: CompiledRule; find: NonNullable<CompiledRule['find']> }[] = []
  #window = ''
  #base = 0

  constructor(rules: CompiledRule[], form: NormalForm | PlainReading) {
    this.#form = form
    // What searches whole texts reads their normal form itself.
    if (form instanceof PlainReading)
      this.#finders = rules.flatMap(rule => (rule.find ? [{ rule, find: rule.find }] : []))
    this.#searches = rules.flatMap(rule =>
      rule.detectors.map(detector => this.#createSearch(rule, detector)),
    )
  }

  get steps(): number {
    return this.#searches.reduce((sum, { search }) => sum + search.steps, 0)
  }

  *read(text: string): Work<void> {
    for (let from = 0; from < text.length; from += BLOCK) {
      const until = Math.min(text.length, from + BLOCK)
      for (let at = from; at < until; at += READ_AT_ONCE) {
        const slice = text.slice(at, Math.min(until, at + READ_AT_ONCE))
        this.#window += this.#form.read(slice, at + READ_AT_ONCE >= text.length)
        yield
      }
      yield* this.#search(until === text.length)
    }
  }

  *#search(isLast: boolean): Work<void> {
    for (const { search, emit } of this.#searches) {
      yield* search.read(this.#window, this.#base, isLast)
      yield* emit()
    }
    for (const { rule, find } of this.#finders)
      yield* handleEach(yield* find(this.#window), span => this.#add(rule, this.#shift(span)))
    const end = this.#base + this.#window.length
    const open = this.#searches.map(({ search }) => search.position)
    this.#moveWindow(Math.min(end, ...open) - 1)
  }

  /** Lets the window begin at a later offset of the form, so that long matches stay in it. */
  #moveWindow(offset: number): void {
    const base = Math.max(this.#base, offset - LONGEST_HELD)
    this.#window = this.#window.slice(base - this.#base)
    this.#base = base
    this.#form.forget(base)
  }

  #createSearch(rule: CompiledRule, detector: CompiledDetector) {
    let spans: Span[] = []
    const add = (start: number, end: number) => spans.push({ start, end })
    const takeSpans = () => {
      const taken = spans
      spans = []
      return taken
    }
    const search = new TextSearch(detector.program, add, detector.anchor)
    return { search, emit: () => this.#emit(rule, detector, takeSpans()) }
  }

  *#emit(rule: CompiledRule, detector: CompiledDetector, spans: Span[]): Work<void> {
    const needsText = detector.accepts !== undefined || detector.findSpans !== undefined
    let count = 0
    for (const { start, end } of spans) {
      const from = Math.max(start, this.#base)
      const text = needsText ? this.#window.slice(from - this.#base, end - this.#base) : ''
      for (const span of listSpans(detector, text, end - from)) {
        if (span) this.#add(rule, { start: from + span.start, end: from + span.end })
        if (++count % ITEMS_AT_ONCE === 0) yield
      }
      if (++count % ITEMS_AT_ONCE === 0) yield
    }
  }

  #shift({ start, end }: Span): Span {
    return { start: this.#base + start, end: this.#base + end }
  }

  #add(rule: CompiledRule, span: Span): void {
    const original = this.#form.toOriginal(span)
    this.found.push({ rule, ...original })
  }
}

/** Texts that need not be read. */
interface KnownTexts {
  has(text: string): boolean
  add(text: string): unknown
}

/** What the last gate found in a value that is about to leave. */
interface GateResult<V> {
  /** The value without what is redacted; the value itself if nothing is. */
  value: V
  found: { match: Match; text: string }[]
}

/**
 * Looks at every string of a value that no filter has read before, names and long numbers included,
 * as the receiver will read it: whatever a protocol has decoded, joined or moved is read again.
 * Strings in `known` were read before. Media in base64 and data URLs are not read.
 */
function* filterUnread<V>(
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

const UNREAD_AT_ONCE = 1_000

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
    if (count % UNREAD_AT_ONCE === 0) yield
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
