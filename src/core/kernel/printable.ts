/**
 * Replaces control characters and bidi marks with U+FFFD. They could move a terminal's cursor,
 * break a log line or forge a header.
 */
export const toPrintable = (text: string): string => text.replace(UNSAFE, '\uFFFD')

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find.
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
