import { ITEMS_AT_ONCE, sortInTurns, type Work } from '../../base/turns.ts'
import { compareMatches } from './match-index.ts'
import type { Match } from './rule.ts'

/** A part of a text and the label that replaces it. Replacements do not overlap. */
export interface Replacement {
  start: number
  end: number
  label: string
}

/** A text that is put together from many parts, however many: no part is copied twice. */
export class TextBuilder {
  readonly #texts: string[] = []
  #parts: string[] = []

  add(...parts: string[]): void {
    for (const part of parts) this.#parts.push(part)
    if (this.#parts.length >= ITEMS_AT_ONCE) this.#join()
  }

  end(): string {
    this.#join()
    return this.#texts.join('')
  }

  #join(): void {
    this.#texts.push(this.#parts.join(''))
    this.#parts = []
  }
}

/**
 * Lists what is to be replaced. Overlapping matches are merged, with the label of the one that
 * begins first, and of several the longest.
 */
export function* listReplacements(matches: Match[]): Work<Replacement[]> {
  const found: Replacement[] = []
  let count = 0
  for (const { start, end, rule } of yield* sortInTurns(matches, compareMatches)) {
    if (++count % ITEMS_AT_ONCE === 0) yield
    if (rule.action !== 'redact') continue
    const last = found.at(-1)
    if (last && start < last.end) last.end = Math.max(last.end, end)
    else found.push({ start, end, label: rule.label })
  }
  return found
}

/** Returns the text with labels in place of its matches. */
export function* redactText(text: string, matches: Match[]): Work<string> {
  return yield* replaceParts(text, yield* listReplacements(matches))
}

/** Returns the text with labels in place of parts of it. */
export function* replaceParts(text: string, replacements: Replacement[]): Work<string> {
  const result = new TextBuilder()
  let from = 0
  let count = 0
  for (const { start, end, label } of replacements) {
    result.add(text.slice(from, start), label)
    from = end
    if (++count % ITEMS_AT_ONCE === 0) yield
  }
  result.add(text.slice(from))
  return result.end()
}

/**
 * Redacts the pieces of a text as one text. A label goes into the piece in which its match begins.
 */
export function* redactPieces(pieces: string[], matches: Match[]): Work<string[]> {
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
