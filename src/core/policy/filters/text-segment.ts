import type { TextSegment } from '../../language/text-segment.ts'
import type { FilterSet } from './filter-set.ts'
import { redactJson } from './json-text.ts'
import { redactPieces } from './redact.ts'
import type { Match } from './rule.ts'

/** A text segment after redaction, and the matches found in its whole text. */
export interface FilteredSegment {
  pieces: string[]
  text: string
  matches: Match[]
}

/**
 * Searches a segment and redacts it. Several pieces are searched twice, joined and each by itself:
 * a number may be split between two pieces, and two words may run together when joined.
 */
export async function redactSegment(
  { pieces, isJson }: TextSegment,
  filterSet: FilterSet,
): Promise<FilteredSegment> {
  const text = pieces.join('')
  const search = (value: string) => filterSet.search(value)
  if (isJson) {
    const { text: filtered, matches } = await redactJson(text, search)
    return { pieces: [filtered], text, matches }
  }
  const matches = await search(text)
  if (pieces.length > 1) await addPieceMatches(pieces, matches, search)
  return { pieces: redactPieces(pieces, matches), text, matches }
}

/** Adds the matches that only appear in a single piece. */
async function addPieceMatches(
  pieces: string[],
  matches: Match[],
  search: (text: string) => Promise<Match[]>,
): Promise<void> {
  const joinedMatches = [...matches]
  let offset = 0
  for (const piece of pieces) {
    for (const { rule, start, end } of await search(piece)) {
      const isKnown = joinedMatches.some(
        match => match.rule === rule && match.start <= offset + start && match.end >= offset + end,
      )
      if (!isKnown) matches.push({ rule, start: offset + start, end: offset + end })
    }
    offset += piece.length
  }
}
