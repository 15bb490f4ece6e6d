import type { Anchor } from '../patterns/start-search.ts'
import { isDigit } from './builtin.ts'

/** Finds the first place from `from` to before `to` at which something begins; -1 if there is none. */
type Find = Anchor['find']

/**
 * Finds a character by its code. The engine's own search takes a hundredth of the time where there is
 * none, and three times as long where every fourth is one: those are found by reading. What is sought
 * at once doubles, so that no more than twice the way to the character is looked at.
 */
export const seekCode = (wanted: number): Find => {
  const character = String.fromCharCode(wanted)
  return (text, from, to) => {
    const near = Math.min(to, from + NEAR)
    for (let i = from; i < near; i++) if (text.charCodeAt(i) === wanted) return i
    for (let at = near, size = NEAR; at < to; at += size, size *= 2) {
      const found = text.slice(at, Math.min(to, at + size)).indexOf(character)
      if (found !== -1) return at + found
    }
    return -1
  }
}

const NEAR = 16

/**
 * Finds a place that a test accepts, among those where this many digits stand in a row. Of so many
 * places in a row only one has to be looked at.
 */
export const seekDigits =
  (count: number, accepts: (text: string, at: number) => boolean): Find =>
  (text, from, to) => {
    // A unit beyond the end is no number, and then the engine allows for that at every place.
    const end = Math.min(to, text.length - count + 1)
    let at = from
    while (at < end) {
      const last = at + count - 1
      let i = last
      while (i >= at && isDigit(text.charCodeAt(i))) i -= 1
      if (i >= at) at = i + 1
      else if (accepts(text, at)) return at
      else at += 1
    }
    return -1
  }

/** How far an expression reads beyond the end of what it may find. */
const READ_ON = 1_024

/** Finds what a global expression matches. It must not match more than 1,024 units. */
export const seekExpression =
  (expression: RegExp): Find =>
  (text, from, to) => {
    expression.lastIndex = from
    const found = expression.exec(to + READ_ON < text.length ? text.slice(0, to + READ_ON) : text)
    return found && found.index < to ? found.index : -1
  }

/**
 * Finds a blank where a test returns how many units before it something begins, which is at most
 * `MOST_BEFORE`; 0 stands for nothing.
 */
export const seekBlank =
  (measure: (text: string, blank: number) => number): Find =>
  (text, from, to) => {
    for (let blank = from; blank < to + MOST_BEFORE && blank < text.length; blank++) {
      if (text.charCodeAt(blank) !== BLANK) continue
      const length = measure(text, blank)
      const at = blank - length
      if (length > 0 && at >= from && at < to) return at
    }
    return -1
  }

const BLANK = 0x20
const MOST_BEFORE = 4
