import { runAtOnce, type Work } from '../../base/turns.ts'
import { Machine } from '../patterns/machine.ts'
import type { Program } from '../patterns/program.ts'
import { PlainReading } from './disguises.ts'
import { compareMatches } from './match-index.ts'
import { NormalForm } from './normal-form.ts'
import { type CompiledDetector, type CompiledRule, listSpans, type Match } from './rule.ts'

/**
 * The most of a text that is held back while something in it may still become a match, in UTF-16
 * units. A longer match has already been sent in part when its end arrives: it still blocks and
 * flags, and only its last 4,096 units are redacted.
 */
export const LONGEST_HELD = 4_096
/** The most that is held back for as many units of another form: each may be written in several. */
export const LONGEST_DISGUISED = 32_768

/** How much of a text one pattern reads before others may have their turn. */
const SLICE = 256
/** Redactions that are done are dropped when there are this many. */
const MOST_DONE = 65_536

// A machine reports what it gives up on before it has read the next character.
const WIDEST = 2

/** What follows a text for one pattern. */
interface Reader {
  rule: CompiledRule
  detector: CompiledDetector
  machine: Machine
}

/** Another form of the text, and what follows it from where it first differs. */
interface FollowedForm {
  form: NormalForm | PlainReading
  /** Empty until the form differs. */
  readers: Reader[]
  /** The end of the form, from some offset on. */
  text: string
  from: number
  /** What was found in it, and what of that has not been reported. */
  found: Match[]
  unreported: Match[]
}

/**
 * Scans one text as it streams, as written, in its normal form and as its receiver may read it: how
 * much of it is decided, and what replaces the matches. The output does not depend on how the text
 * is cut.
 */
export class StreamScanner {
  readonly #readers: Reader[]
  readonly #onMatch: (match: Match) => void
  readonly #form = new NormalForm()
  readonly #plain = new PlainReading()
  readonly #normalForm = createForm(this.#form)
  readonly #plainForm = createForm(this.#plain)
  /** What was found as written since another form is followed. */
  #written: Match[] = []
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
    const knownUntil = Math.min(this.#form.knownUntil, this.#plain.knownUntil)
    const earliest = Math.min(this.#findOpen(), ...this.#forms.map(form => findOpenInForm(form)))
    const isFree = earliest >= knownUntil && !this.#mayBegin()
    const decided = isFree ? this.length : Math.min(earliest, knownUntil)
    return Math.min(Math.max(decided, this.#findLeast()), this.#blockedAt)
  }

  /** The forms that are followed, in the order in which they are asked for what they have found. */
  get #forms(): FollowedForm[] {
    return [this.#normalForm, this.#plainForm].filter(({ readers }) => readers.length > 0)
  }

  /** Tells whether a match may begin with the last characters, whatever follows. */
  #mayBegin(): boolean {
    const { open } = this.#form
    // An escape that has begun may be any letter, and so may half of one.
    if (this.#plain.undecoded !== '' || open !== this.#plain.open || endsInHalf(open)) return true
    return this.#readers.some(reader => mayBegin(reader, open))
  }

  /** Finds how much goes out even if it may be part of a match: not all of a text is held back. */
  #findLeast(): number {
    const held = this.length - LONGEST_HELD
    if (held <= this.#taken) return this.#taken
    const inForms = this.#forms.map(({ form, from, text }) =>
      form.findOrigin(Math.max(0, from + text.length - LONGEST_HELD)),
    )
    const least = Math.max(Math.min(held, ...inForms), this.length - LONGEST_DISGUISED)
    return Math.max(this.#taken, least)
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
    for (const { machine } of this.#readers) machine.end()
    for (const { readers } of this.#forms) for (const { machine } of readers) machine.end()
    this.#reportForms()
  }

  /** Reads on as far as it is known how its receiver reads the text. */
  *#advance(slice: string, isLast: boolean): Work<void> {
    const wasDisguised = this.#plain.isDisguised
    const unread = wasDisguised ? slice : this.#plain.undecoded + slice
    const added = this.#plain.read(slice, isLast)
    // Until then the reading is the normal form, and what follows that has come as far.
    if (!wasDisguised && this.#plain.isDisguised) this.#beginPlain()
    yield* feedForm(this.#plainForm, added)
    const undecoded = this.#plain.isDisguised ? 0 : this.#plain.undecoded.length
    yield* this.#readForm(unread.slice(0, unread.length - undecoded), isLast)
    if (this.#forms.length === 0) return
    this.#reportForms()
    for (const form of this.#forms) forgetForm(form)
  }

  /** Reads on as far as the normal form is known: the last character may still change. */
  *#readForm(slice: string, isLast: boolean): Work<void> {
    const { knownUntil, firstChange: change } = this.#form
    const unread = this.#form.open + slice
    const added = this.#form.read(slice, isLast)
    const original = unread.slice(0, unread.length - this.#form.open.length)
    const { firstChange } = this.#form
    const isChanging = change === null && firstChange !== null
    const same = isChanging ? firstChange - knownUntil : 0
    yield* this.#feedMachines(original.slice(0, same))
    if (isChanging) this.#follow(this.#normalForm, firstChange)
    yield* this.#feedMachines(original.slice(same))
    yield* feedForm(this.#normalForm, added.slice(same))
  }

  *#feedMachines(text: string): Work<void> {
    if (text === '') return
    for (const { machine } of this.#readers) {
      machine.feed(text)
      yield
    }
  }

  /** Follows a form by itself from where the text as written has been read. */
  #follow(followed: FollowedForm, readUntil: number): void {
    followed.from = Math.min(this.#taken, readUntil)
    followed.text = this.#text.slice(0, readUntil - followed.from)
    followed.readers = this.#forkReaders(followed, this.#readers)
  }

  /** Follows the plain reading from where the normal form has been read. */
  #beginPlain(): void {
    const { readers, text, from } = this.#normalForm
    if (readers.length === 0) this.#follow(this.#plainForm, this.#form.knownUntil)
    else
      Object.assign(this.#plainForm, {
        ...{ text, from, readers: this.#forkReaders(this.#plainForm, readers) },
      })
  }

  #forkReaders(followed: FollowedForm, readers: Reader[]): Reader[] {
    return readers.map(({ rule, detector, machine }) => ({
      rule,
      detector,
      machine: machine.fork((start, end) =>
        this.#addFormMatches(followed, rule, detector, start, end),
      ),
    }))
  }

  /** Finds where the earliest match begins that is still open as written, as far as it counts. */
  #findOpen(): number {
    return Math.max(findEarliest(this.#readers), this.#form.knownUntil - LONGEST_HELD)
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
      if (this.#forms.length > 0) insertSorted(this.#written, match)
      this.#onMatch(match)
    }
  }

  #addFormMatches(
    { form, text, from, found, unreported }: FollowedForm,
    rule: CompiledRule,
    detector: CompiledDetector,
    start: number,
    end: number,
  ): void {
    const readFrom = Math.max(start, end - LONGEST_HELD, from)
    const matched = text.slice(readFrom - from, end - from)
    for (const span of toMatches(rule, detector, readFrom, matched)) {
      const match = { rule, ...form.toOriginal(span) }
      this.#addMatch(match)
      insertSorted(found, match)
      insertSorted(unreported, match)
    }
  }

  /** Adds a match. What of it has already gone out cannot be taken back. */
  #addMatch(match: Match): void {
    const { action } = match.rule
    const start = Math.max(match.start, this.#taken)
    if (action === 'redact' && match.end > start)
      insertSorted(this.#redactions, { ...match, start })
    if (action === 'block') this.#blockedAt = Math.min(this.#blockedAt, start)
  }

  /** Reports what was found in one form alone, as soon as it is known that it was in no other. */
  #reportForms(): void {
    const earlier = [this.#written]
    let open = this.#ended ? Number.POSITIVE_INFINITY : this.#findOpen()
    let needed = Number.POSITIVE_INFINITY
    for (const followed of this.#forms) {
      this.#reportForm(followed, earlier, open)
      earlier.push(followed.found)
      if (!this.#ended) open = Math.min(open, findOpenInForm(followed))
      needed = Math.min(needed, followed.unreported[0]?.start ?? needed)
    }
    needed = Math.min(needed, open)
    this.#written = dropFirst(this.#written, ({ end }) => end <= needed)
    for (const followed of this.#forms)
      followed.found = dropFirst(followed.found, ({ end }) => end <= needed)
  }

  #reportForm(followed: FollowedForm, earlier: Match[][], open: number): void {
    if ((followed.unreported[0]?.start ?? open) >= open) return
    const isKnown = readAlong(earlier)
    followed.unreported = dropFirst(followed.unreported, match => {
      if (match.start >= open) return false
      if (!isKnown(match)) this.#onMatch(match)
      return true
    })
  }
}

/**
 * Returns what tells whether one of these lists has a match that includes another. They are sorted
 * by start, and so are the matches that it is asked for.
 */
function readAlong(lists: Match[][]): (match: Match) => boolean {
  const furthestEnds = new Map<CompiledRule, number>()
  const places = lists.map(() => 0)
  const readUntil = (list: Match[], from: number, start: number): number => {
    let at = from
    for (let next = list[at]; next && next.start <= start; next = list[++at])
      furthestEnds.set(next.rule, Math.max(next.end, furthestEnds.get(next.rule) ?? 0))
    return at
  }
  return ({ rule, start, end }) => {
    for (const [i, list] of lists.entries()) places[i] = readUntil(list, places[i] ?? 0, start)
    return (furthestEnds.get(rule) ?? 0) >= end
  }
}

/** Returns the matches without the first ones of which this is true. */
function dropFirst(matches: Match[], isDone: (match: Match) => boolean): Match[] {
  const count = matches.findIndex(match => !isDone(match))
  if (count === 0 || matches.length === 0) return matches
  return count === -1 ? [] : matches.slice(count)
}

const createForm = (form: NormalForm | PlainReading): FollowedForm => ({
  ...{ form, readers: [], text: '', from: 0, found: [], unreported: [] },
})

function* feedForm(followed: FollowedForm, added: string): Work<void> {
  if (followed.readers.length === 0 || added === '') return
  followed.text += added
  for (const { machine } of followed.readers) {
    machine.feed(added)
    yield
  }
}

/** What of a form is kept at most before its beginning is forgotten. */
const MOST_FORM = 8 * LONGEST_HELD

function forgetForm(followed: FollowedForm): void {
  if (followed.text.length < MOST_FORM) return
  const count = followed.text.length - 2 * LONGEST_HELD
  followed.text = followed.text.slice(count)
  followed.from += count
  followed.form.forget(followed.from)
}

const findEarliest = (readers: Reader[]): number =>
  readers.reduce(
    (least, { machine }) => Math.min(least, machine.earliestOpen),
    Number.POSITIVE_INFINITY,
  )

/** Finds where in the text the earliest match begins that is still open in a form of it. */
const findOpenInForm = ({ form, readers, from, text }: FollowedForm): number =>
  form.findOrigin(Math.max(findEarliest(readers), from + text.length - LONGEST_HELD))

const endsInHalf = (text: string): boolean => (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800

/**
 * Tells whether a match may begin with the last characters of a text, as they are or as a mark that
 * follows may change them.
 */
function mayBegin({ detector: { program } }: Reader, open: string): boolean {
  if (open === '') return false
  if (open.length === 1 && open < '\u0080') return mayLetterBegin(program, open)
  if (program.canBeginBeyondAscii) return true
  const form = new NormalForm().read(open, true)
  const plain = new PlainReading().read(open, true)
  return [...open, ...form, ...plain].some(character =>
    program.canBeginWith(character.codePointAt(0) ?? 0),
  )
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
