import { runAtOnce, type Work } from '../../base/turns.ts'
import { Machine } from '../patterns/machine.ts'
import type { Program } from '../patterns/program.ts'
import { compareMatches, MatchIndex } from './match-index.ts'
import { NormalForm } from './normal-form.ts'
import { type CompiledDetector, type CompiledRule, listSpans, type Match } from './rule.ts'

/**
 * The most of a text that is held back while something in it may still become a match, in UTF-16
 * units. A longer match has already been sent in part when its end arrives: it still blocks and
 * flags, and only its last 4,096 units are redacted.
 */
export const LONGEST_HELD = 4_096

/** How much of a text one pattern reads before others may have their turn. */
const SLICE = 256
/** Redactions that are done are dropped when there are this many. */
const MOST_DONE = 65_536

// A machine reports what it gives up on before it has read the next character.
const WIDEST = 2

/** What follows a text for one pattern: as written, and in its normal form once that differs. */
interface Reader {
  rule: CompiledRule
  detector: CompiledDetector
  machine: Machine
  formMachine: Machine | null
}

/**
 * Scans one text as it streams, as written and in its normal form: how much of it is decided, and
 * what replaces the matches. The output does not depend on how the text is cut.
 */
export class StreamScanner {
  readonly #readers: Reader[]
  readonly #onMatch: (match: Match) => void
  readonly #form = new NormalForm()
  /** The end of the normal form, from some offset on, once it differs. */
  #formText = ''
  #formFrom = 0
  /** What was found as written since then, and in the normal form but not yet reported. */
  #written: Match[] = []
  #unreported: Match[] = []
  #redactions: Match[] = []
  #nextRedaction = 0
  #text = ''
  #taken = 0
  #hiddenUntil = 0
  #ended = false
  #blockedAt = Number.POSITIVE_INFINITY

  constructor(rules: CompiledRule[], onMatch: (match: Match) => void) {
    this.#onMatch = onMatch
    this.#readers = rules.flatMap(rule =>
      rule.detectors.map(detector => ({
        rule,
        detector,
        machine: new Machine(
          detector.program,
          (start, end) => this.#addMatches(rule, detector, start, end),
          LONGEST_HELD - WIDEST,
        ),
        formMachine: null,
      })),
    )
  }

  /** Whether the output differs from the input. */
  get changed(): boolean {
    return this.#hiddenUntil > 0
  }

  /** How much of the text has arrived. */
  get length(): number {
    return this.#taken + this.#text.length
  }

  /**
   * How much of the output is decided: nothing before it can be part of an unknown match. It stops
   * where a blocking match begins, so that what blocks never goes out.
   */
  get decidedUntil(): number {
    if (this.#ended) return Math.min(this.length, this.#blockedAt)
    const { knownUntil, open } = this.#form
    const earliest = Math.min(this.#findOpen(), this.#findOpenInForm())
    const isFree = earliest >= knownUntil && this.#readers.every(reader => !mayBegin(reader, open))
    const decided = isFree ? this.length : Math.min(earliest, knownUntil)
    const least = Math.max(this.#taken, this.length - LONGEST_HELD)
    return Math.min(Math.max(decided, least), this.#blockedAt)
  }

  /** Reads more text. Long ones take `read`. */
  feed(text: string): void {
    runAtOnce(this.read(text))
  }

  /** Reads more text, and lets others have their turn. */
  *read(text: string): Work<void> {
    for (let offset = 0; offset < text.length; offset += SLICE) {
      const slice = text.slice(offset, offset + SLICE)
      this.#text += slice
      yield* this.#advance(slice, false)
    }
  }

  /** Ends the text: everything is decided. */
  end(): void {
    if (this.#ended) return
    runAtOnce(this.#advance('', true))
    this.#ended = true
    for (const { machine, formMachine } of this.#readers) {
      machine.end()
      formMachine?.end()
    }
    this.#reportFormMatches()
  }

  /** Reads on as far as the normal form is known: the last character may still change. */
  *#advance(slice: string, isLast: boolean): Work<void> {
    const { knownUntil, firstChange: change } = this.#form
    const unread = this.#form.open + slice
    const added = this.#form.read(slice, isLast)
    const original = unread.slice(0, unread.length - this.#form.open.length)
    const { firstChange } = this.#form
    const isChanging = change === null && firstChange !== null
    const same = isChanging ? firstChange - knownUntil : 0
    yield* this.#feedMachines(original.slice(0, same))
    if (isChanging) this.#beginForm(firstChange)
    yield* this.#feedMachines(original.slice(same))
    if (firstChange === null) return
    yield* this.#feedFormMachines(added.slice(same))
    this.#reportFormMatches()
    this.#forgetForm()
  }

  *#feedMachines(text: string): Work<void> {
    if (text === '') return
    for (const { machine } of this.#readers) {
      machine.feed(text)
      yield
    }
  }

  /** Follows the normal form by itself from where it first differs. */
  #beginForm(firstChange: number): void {
    this.#formFrom = Math.min(this.#taken, firstChange)
    this.#formText = this.#text.slice(0, firstChange - this.#formFrom)
    for (const reader of this.#readers)
      reader.formMachine = reader.machine.fork((start, end) =>
        this.#addFormMatches(reader, start, end),
      )
  }

  *#feedFormMachines(text: string): Work<void> {
    this.#formText += text
    for (const { formMachine } of this.#readers) {
      formMachine?.feed(text)
      yield
    }
  }

  #forgetForm(): void {
    if (this.#formText.length < MOST_FORM) return
    const count = this.#formText.length - 2 * LONGEST_HELD
    this.#formText = this.#formText.slice(count)
    this.#formFrom += count
    this.#form.forget(this.#formFrom)
  }

  /** Finds where the earliest match begins that is still open as written. */
  #findOpen(): number {
    return this.#readers.reduce(
      (least, { machine }) => Math.min(least, machine.earliestOpen),
      Number.POSITIVE_INFINITY,
    )
  }

  /** Finds where in the text the earliest match begins that is still open in the normal form. */
  #findOpenInForm(): number {
    if (this.#form.firstChange === null) return Number.POSITIVE_INFINITY
    const earliest = this.#readers.reduce(
      (least, { formMachine }) => Math.min(least, formMachine?.earliestOpen ?? least),
      Number.POSITIVE_INFINITY,
    )
    const held = this.#formFrom + this.#formText.length - LONGEST_HELD
    return this.#form.findOrigin(Math.max(earliest, held))
  }

  /** Returns the output for the text from the last call's `end` up to this one. */
  take(end: number): string {
    let output = ''
    for (let next = this.#shiftRedaction(end); next; next = this.#shiftRedaction(end)) {
      if (next.start >= this.#hiddenUntil) {
        output += this.#takeVisible(next.start) + next.rule.label
        this.#hiddenUntil = next.end
      } else this.#hiddenUntil = Math.max(this.#hiddenUntil, next.end)
    }
    return output + this.#takeVisible(end)
  }

  // Overlapping matches share one label: that of the match that begins first, and of several the
  // longest.
  #shiftRedaction(to: number): Match | undefined {
    const next = this.#redactions[this.#nextRedaction]
    if (!next || next.start >= to) return undefined
    this.#nextRedaction += 1
    if (this.#nextRedaction === MOST_DONE) this.#dropDone()
    return next
  }

  #dropDone(): void {
    this.#redactions = this.#redactions.slice(this.#nextRedaction)
    this.#nextRedaction = 0
  }

  /** Returns the text up to `to` without what is redacted, and drops it from the buffer. */
  #takeVisible(to: number): string {
    const from = Math.min(Math.max(this.#hiddenUntil, this.#taken), to)
    const visible = this.#text.slice(from - this.#taken, to - this.#taken)
    this.#text = this.#text.slice(to - this.#taken)
    this.#taken = to
    return visible
  }

  #addMatches(rule: CompiledRule, detector: CompiledDetector, start: number, end: number): void {
    const from = Math.max(start, end - LONGEST_HELD, this.#taken)
    const text = this.#text.slice(from - this.#taken, end - this.#taken)
    for (const match of toMatches(rule, detector, from, text)) {
      this.#addMatch(match)
      if (this.#form.firstChange !== null) this.#written.push(match)
      this.#onMatch(match)
    }
  }

  #addFormMatches({ rule, detector }: Reader, start: number, end: number): void {
    const from = Math.max(start, end - LONGEST_HELD, this.#formFrom)
    const text = this.#formText.slice(from - this.#formFrom, end - this.#formFrom)
    for (const span of toMatches(rule, detector, from, text)) {
      const match = { rule, ...this.#form.toOriginal(span) }
      this.#addMatch(match)
      this.#unreported.push(match)
    }
  }

  #addMatch(match: Match): void {
    const { action } = match.rule
    if (action === 'redact') insertSorted(this.#redactions, match)
    if (action === 'block') this.#blockedAt = Math.min(this.#blockedAt, match.start)
  }

  /** Reports what was found in the normal form alone, as soon as it is known that it was not. */
  #reportFormMatches(): void {
    const open = this.#ended ? Number.POSITIVE_INFINITY : this.#findOpen()
    const ready = this.#unreported.filter(({ start }) => start < open)
    if (ready.length > 0) {
      const written = runAtOnce(MatchIndex.create(this.#written))
      for (const match of ready) if (!written.includes(match.rule, match)) this.#onMatch(match)
      this.#unreported = this.#unreported.filter(({ start }) => start >= open)
    }
    const earliest = this.#unreported.reduce(
      (least, { start }) => Math.min(least, start),
      this.#findOpenInForm(),
    )
    this.#written = this.#written.filter(({ end }) => end > earliest)
  }
}

/** What of the normal form is kept at most before its beginning is forgotten. */
const MOST_FORM = 8 * LONGEST_HELD

/**
 * Tells whether a match may begin with the last characters of a text, as they are or as a mark that
 * follows may change them.
 */
function mayBegin({ detector: { program } }: Reader, open: string): boolean {
  if (open === '') return false
  if (open.length === 1 && open < '\u0080') return mayLetterBegin(program, open)
  if (program.canBeginBeyondAscii) return true
  const form = new NormalForm().read(open, true)
  return [...open, ...form].some(character => program.canBeginWith(character.codePointAt(0) ?? 0))
}

function mayLetterBegin(program: Program, letter: string): boolean {
  if (program.canBeginWith(letter.charCodeAt(0))) return true
  if (program.beginsWithFolded) return false
  const known = composedStarts.get(program) ?? new Map<string, boolean>()
  composedStarts.set(program, known)
  const may = known.get(letter) ?? listComposed(letter).some(rune => program.canBeginWith(rune))
  known.set(letter, may)
  return may
}

const composedStarts = new WeakMap<Program, Map<string, boolean>>()

/** Lists what a character of ASCII may become with marks, and the marks that may follow it. */
function listComposed(letter: string): number[] {
  composed ??= Map.groupBy(COMPOSED, rune => String.fromCharCode(rune).normalize('NFD').charAt(0))
  return [...MARKS, ...(composed.get(letter) ?? [])]
}

const MARKS = Array.from({ length: 0x70 }, (_, i) => 0x300 + i)

let composed: Map<string, number[]> | undefined
/** Latin letters with marks, and signs that are struck through. */
const COMPOSED = [
  ...Array.from({ length: 0x190 }, (_, i) => 0xc0 + i),
  ...Array.from({ length: 0x100 }, (_, i) => 0x1e00 + i),
  0x2260,
  0x226e,
  0x226f,
]

/** Lists the matches within a text that a pattern has found at this offset. */
function toMatches(
  rule: CompiledRule,
  detector: CompiledDetector,
  offset: number,
  text: string,
): Match[] {
  const matches: Match[] = []
  for (const span of listSpans(detector, text))
    if (span) matches.push({ rule, start: offset + span.start, end: offset + span.end })
  return matches
}

function insertSorted(matches: Match[], match: Match): void {
  let at = matches.length
  for (
    let before = matches[at - 1];
    before && compareMatches(before, match) > 0;
    before = matches[at - 1]
  )
    at -= 1
  matches.splice(at, 0, match)
}
