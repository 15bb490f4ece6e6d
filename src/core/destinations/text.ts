/**
 * Writes a value as JSON that every parser reads: half of a surrogate pair, which strict ones
 * refuse together with the whole batch, becomes U+FFFD.
 */
export function writeJson(value: unknown): string {
  const json = JSON.stringify(value)
  return json.includes('\\ud') ? json.replace(LONE_SURROGATE, '$1\ufffd') : json
}

// JSON.stringify escapes surrogates only if they are lone. An even number of backslashes before
// the escape are texts of their own.
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g

/** Cuts a text after so many UTF-16 units, and not within a character. */
export function cutText(text: string, most: number): string {
  if (text.length <= most) return text
  const code = text.charCodeAt(most - 1)
  return text.slice(0, code >= 0xd800 && code < 0xdc00 ? most - 1 : most)
}
