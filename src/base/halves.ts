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
