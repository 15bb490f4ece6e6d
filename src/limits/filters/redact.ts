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
