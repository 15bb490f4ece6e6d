/** A text without anything that the functions below replace: only ASCII that is printed. */
export const PLAIN_TEXT = /^[ -~]*$/

/**
 * Replaces control characters and bidi marks with U+FFFD. They could move a terminal's cursor,
 * break a log line or forge a header.
 */
export const toPrintable = (text: string): string => text.replace(UNSAFE, '\uFFFD')

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find.
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/**
 * Renders a value as JSON that a terminal can show: every character that `toPrintable` replaces is
 * escaped, so the value stays the same. JSON itself escapes only those below U+0020.
 */
export const toPrintableJson = (value: unknown, indent?: number): string =>
  JSON.stringify(value, null, indent)?.replace(UNESCAPED, toEscape) ?? 'null'

const toEscape = (character: string): string =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

// Line ends and tabs outside of strings are the indentation.
const UNESCAPED = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/**
 * Shows the name of a file: what turns the direction of its letters is escaped, since a name such as
 * `photo\u202egnp.exe` would be read as one of another type.
 */
export const showName = (name: string): string => name.replace(TURNING, toEscape)

const TURNING = /[\u202a-\u202e\u2066-\u2069]/g

/*
 * Halves of surrogate pairs. A text of JavaScript may hold one, where a character was cut in two;
 * JSON can spell it, and strict readers of UTF-8 refuse the whole text for it.
 */

/** Writes a value as JSON that every parser reads: a lone half becomes the replacement character. */
export const stringifyWellFormed = (value: unknown): string => mendWritten(JSON.stringify(value))

/**
 * Replaces the lone halves in what JSON.stringify wrote. It escapes halves only if they are lone, so
 * that almost every text is returned as it is, at the cost of one search.
 */
export const mendWritten = (json: string): string =>
  json.includes('\\ud') ? json.replace(LONE, '$1\ufffd') : json

// An even number of backslashes before the escape are themselves escaped.
const LONE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g

/** Whether the JSON that others wrote spells halves, of pairs or alone. */
export const spellsHalves = (json: string): boolean =>
  json.includes('\\ud') || json.includes('\\uD')

/** Replaces the lone halves in JSON that others wrote, who may spell whole pairs as escapes too. */
export const mendEscapes = (json: string): string =>
  spellsHalves(json) ? json.replace(ESCAPES, mendEscape) : json

const ESCAPES = /\\(?:u([dD][89a-fA-F][0-9a-fA-F]{2})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|[\s\S])/g

function mendEscape(spelled: string, first?: string, second?: string): string {
  if (first === undefined) return spelled
  if (second === undefined) return REPLACEMENT
  return /^[dD][89abAB]/.test(first) ? spelled : REPLACEMENT + REPLACEMENT
}

const REPLACEMENT = '\\ufffd'

const isHighHalf = (code: number): boolean => (code & 0xfc00) === 0xd800

/** Joins the halves of characters that a sender cuts between two pieces of one text. */
export class HalfJoiner {
  readonly #held = new Map<string, string>()

  /** Returns the next piece of the text of this name, without a half at its end: that waits. */
  join(name: string, piece: string): string {
    const text = (this.#held.get(name) ?? '') + piece
    this.#held.delete(name)
    const last = text.length - 1
    if (!isHighHalf(text.charCodeAt(last))) return text.toWellFormed()
    this.#held.set(name, text.slice(last))
    return text.slice(0, last).toWellFormed()
  }

  /** Returns what is left of the texts whose names begin so: halves that never became whole. */
  flush(beginning: string): [name: string, text: string][] {
    const left: [string, string][] = []
    for (const [name, text] of this.#held)
      if (name.startsWith(beginning)) {
        this.#held.delete(name)
        left.push([name, text.toWellFormed()])
      }
    return left
  }
}

/** What a strict store or receiver refuses a whole text for: NUL, lone halves and no characters. */
const NO_TEXT = /[\0\ufffe\uffff\p{Surrogate}]/u
const ALL_NO_TEXT = new RegExp(NO_TEXT, 'gu')

/** Returns a text that every store and receiver takes: U+FFFD stands for what is none. */
export const toReceivedText = (text: string): string =>
  NO_TEXT.test(text) ? text.replace(ALL_NO_TEXT, '\ufffd') : text
