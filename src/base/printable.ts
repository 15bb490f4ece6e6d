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
