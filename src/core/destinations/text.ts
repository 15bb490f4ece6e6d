import { stringifyWellFormed } from '../kernel/halves.ts'

/**
 * Writes a value as JSON that every parser reads: half of a surrogate pair, which strict ones
 * refuse together with the whole batch, becomes U+FFFD.
 */
export const writeJson = (value: unknown): string => stringifyWellFormed(value)

/** Cuts a text after so many UTF-16 units, and not within a character. */
export function cutText(text: string, most: number): string {
  if (text.length <= most) return text
  const code = text.charCodeAt(most - 1)
  return text.slice(0, code >= 0xd800 && code < 0xdc00 ? most - 1 : most)
}
