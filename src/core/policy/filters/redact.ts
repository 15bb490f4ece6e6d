import { compareMatches } from './match-index.ts'
import type { Match } from './rule.ts'

/** A part of a text and the label that replaces it. Replacements do not overlap. */
export interface Replacement {
  start: number
  end: number
  label: string
}

/**
 * Lists what is to be replaced. Overlapping matches are merged, with the label of the one that
 * begins first, and of several the longest.
 */
export function listReplacements(matches: Match[]): Replacement[] {
  const found: Replacement[] = []
  for (const { start, end, rule } of matches
    .filter(({ rule }) => rule.action === 'redact')
    .toSorted(compareMatches)) {
    const last = found.at(-1)
    if (last && start < last.end) last.end = Math.max(last.end, end)
    else found.push({ start, end, label: rule.label })
  }
  return found
}

/** Returns the text with labels in place of its matches. */
export function redactText(text: string, matches: Match[]): string {
  let result = ''
  let from = 0
  for (const { start, end, label } of listReplacements(matches)) {
    result += text.slice(from, start) + label
    from = end
  }
  return result + text.slice(from)
}

/**
 * Redacts the pieces of a text as one text. A label goes into the piece in which its match begins.
 */
export function redactPieces(pieces: string[], matches: Match[]): string[] {
  const replacements = listReplacements(matches)
  if (replacements.length === 0) return pieces
  let offset = 0
  let next = 0
  return pieces.map(piece => {
    while ((replacements[next]?.end ?? offset + 1) <= offset) next += 1
    const redacted = redactPiece(piece, offset, replacements, next)
    offset += piece.length
    return redacted
  })
}

/** Redacts a piece. `first` is the index of the first replacement that may have a part of it. */
function redactPiece(
  piece: string,
  offset: number,
  replacements: Replacement[],
  first: number,
): string {
  const until = offset + piece.length
  let result = ''
  let from = offset
  for (let i = first; ; i++) {
    const { start, end, label } = replacements[i] ?? NO_REPLACEMENT
    if (start >= until) return result + piece.slice(Math.max(0, from - offset))
    result +=
      piece.slice(from - offset, Math.max(start, from) - offset) + (start >= offset ? label : '')
    from = end
  }
}

const NO_REPLACEMENT: Replacement = {
  start: Number.POSITIVE_INFINITY,
  end: Number.POSITIVE_INFINITY,
  label: '',
}
