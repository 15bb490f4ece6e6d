import type { Work } from '../../base/turns.ts'
import { ITEMS_AT_ONCE } from '../../base/turns.ts'
import type { TextSegment } from '../../language/text-segment.ts'
import type { FilterSet } from './filter-set.ts'
import { redactJson } from './json-text.ts'
import { decodeToken, isJson as isJsonText, readTokens } from './json-tokens.ts'
import { MatchIndex } from './match-index.ts'
import type { Replacement } from './redact.ts'
import { listReplacements, TextBuilder } from './redact.ts'

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
export function* redactSegment(
  { pieces, isJson }: TextSegment,
  filterSet: FilterSet,
): Work<FilteredSegment> {
  const text = pieces.join('')
  if (!isJson && filterSet.isClean(text) && (yield* areClean(pieces, filterSet)))
    return { pieces, text, matches: [] }
  if (isJson) {
    const { text: filtered, matches } = yield* redactJson(text, filterSet)
    return { pieces: [filtered], text, matches }
  }
  const matches = yield* filterSet.scan(text)
  if (pieces.length > 1) yield* addPieceMatches(pieces, matches, filterSet)
  return { pieces: yield* redactPieces(pieces, matches), text, matches }
}

/** Whether each of several pieces is clean by itself: there may be many. */
function* areClean(pieces: string[], filterSet: FilterSet): Work<boolean> {
  if (pieces.length === 1) return true
  for (const piece of pieces) {
    if (!filterSet.isClean(piece)) return false
    yield
  }
  return true
}

/** Adds the matches that only appear in a single piece. */
function* addPieceMatches(pieces: string[], matches: Match[], filterSet: FilterSet): Work<void> {
  const joinedMatches = yield* MatchIndex.create(matches)
  let offset = 0
  for (const piece of pieces) {
    for (const { rule, start, end } of yield* filterSet.scan(piece)) {
      const match = { rule, start: offset + start, end: offset + end }
      if (!joinedMatches.includes(rule, match)) matches.push(match)
      yield
    }
    offset += piece.length
    yield
  }
}

/** Adds the texts of a segment as models may read them: each piece, and each string of JSON. */
export function* listTexts({ pieces, isJson }: TextSegment, into: Set<string>): Work<void> {
  for (const piece of pieces) {
    into.add(piece)
    if (isJson) yield* listStrings(piece, into)
    yield
  }
}

function* listStrings(json: string, into: Set<string>): Work<void> {
  if (!(yield* isJsonText(json))) return
  for (const token of readTokens(json)) {
    if (token?.isText) into.add(decodeToken(json, token))
    yield
  }
}

/**
 * Redacts the pieces of a text as one text. A label goes into the piece in which its match begins.
 */
function* redactPieces(pieces: string[], matches: Match[]): Work<string[]> {
  if (matches.length === 0) return pieces
  const replacements = yield* listReplacements(matches)
  if (replacements.length === 0) return pieces
  const redacted: string[] = []
  let offset = 0
  let next = 0
  for (const piece of pieces) {
    while ((replacements[next]?.end ?? offset + 1) <= offset) next += 1
    redacted.push(yield* redactPiece(piece, offset, replacements, next))
    offset += piece.length
    if (redacted.length % ITEMS_AT_ONCE === 0) yield
  }
  return redacted
}

/** Redacts a piece. `first` is the index of the first replacement that may have a part of it. */
function* redactPiece(
  piece: string,
  offset: number,
  replacements: Replacement[],
  first: number,
): Work<string> {
  const until = offset + piece.length
  const result = new TextBuilder()
  let from = offset
  for (let i = first; ; i++) {
    const { start, end, label } = replacements[i] ?? NO_REPLACEMENT
    if (start >= until) break
    result.add(
      piece.slice(from - offset, Math.max(start, from) - offset),
      start >= offset ? label : '',
    )
    from = end
    if (i % ITEMS_AT_ONCE === 0) yield
  }
  result.add(piece.slice(Math.max(0, from - offset)))
  return result.end()
}

const NO_REPLACEMENT: Replacement = {
  start: Number.POSITIVE_INFINITY,
  end: Number.POSITIVE_INFINITY,
  label: '',
}
