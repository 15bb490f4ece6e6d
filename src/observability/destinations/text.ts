import { stringifyWellFormed } from '../../base/printable.ts'

/**
 * Writes a value as JSON that every parser and every column of texts takes: NUL, half of a surrogate
 * pair and what is no character, any of which has a strict one refuse the whole batch, become U+FFFD.
 */
export function writeJson(value: unknown): string {
  const json = stringifyWellFormed(value)
  const text = json.includes('\\u0000') ? json.replace(NUL, '$1\ufffd') : json
  return text.replace(NO_CHARACTER, '\ufffd')
}

// An even number of backslashes before the escape are themselves escaped.
const NUL = /(?<!\\)((?:\\\\)*)\\u0000/g

const NO_CHARACTER = /[\ufffe\uffff]/g

/** Cuts a text after so many UTF-16 units, and not within a character. */
export function cutText(text: string, most: number): string {
  if (text.length <= most) return text
  const code = text.charCodeAt(most - 1)
  return text.slice(0, code >= 0xd800 && code < 0xdc00 ? most - 1 : most)
}
