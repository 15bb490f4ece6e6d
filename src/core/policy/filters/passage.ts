import type { Passage } from '../../language/passage.ts'
import { screenedJson } from './json-text.ts'
import { redactedPieces } from './redact.ts'
import type { Match } from './rule.ts'
import type { Screen } from './screen.ts'

/** A text segment after redaction, and the matches found in its whole text. */
export interface ScreenedPassage {
  pieces: string[]
  text: string
  matches: Match[]
}

/**
 * Searches a segment and redacts it. Several pieces are searched twice, joined and each by itself:
 * a number may be split between two pieces, and two words may run together when joined.
 */
export async function screenedPassage(
  { pieces, isJson }: Passage,
  screen: Screen,
): Promise<ScreenedPassage> {
  const text = pieces.join('')
  const search = (some: string) => screen.search(some)
  if (isJson) {
    const { text: left, matches } = await screenedJson(text, search)
    return { pieces: [left], text, matches }
  }
  const matches = await search(text)
  if (pieces.length > 1) await addOwn(pieces, matches, search)
  return { pieces: redactedPieces(pieces, matches), text, matches }
}

/** Adds the matches that only appear in a single piece. */
async function addOwn(
  pieces: string[],
  matches: Match[],
  search: (text: string) => Promise<Match[]>,
): Promise<void> {
  const together = [...matches]
  let at = 0
  for (const piece of pieces) {
    for (const { rule, start, end } of await search(piece)) {
      const isKnown = together.some(
        one => one.rule === rule && one.start <= at + start && one.end >= at + end,
      )
      if (!isKnown) matches.push({ rule, start: at + start, end: at + end })
    }
    at += piece.length
  }
}
