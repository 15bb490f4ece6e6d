import { refused, type ScimType } from './refusal.ts'

/** A parsed filter (RFC 7644, 3.4.2.2). Names are as the client wrote them. */
export type ScimFilter =
  | { op: 'and' | 'or'; filters: ScimFilter[] }
  | { op: 'not'; filter: ScimFilter }
  | { op: 'pr'; path: AttributePath }
  | { op: Comparison; path: AttributePath; value: FilterValue }

export type Comparison = (typeof COMPARISONS)[number]
export type FilterValue = string | number | boolean | null

/** A parsed path: `name.givenName`, `emails[type eq "work"].value` (RFC 7644, 3.5.2). */
export interface AttributePath {
  /** The attribute as the client wrote it, with its schema and its sub-attribute. */
  name: string
  /** Selects values of the attribute; null selects all. */
  filter: ScimFilter | null
  /** The sub-attribute after the filter. */
  subAttribute: string | null
}

const COMPARISONS = ['eq', 'ne', 'co', 'sw', 'ew', 'gt', 'ge', 'lt', 'le'] as const

// The most characters and levels of a filter. No honest client needs more.
const LONGEST = 10_000
const DEEPEST = 20

/** Parses a filter. Throws 400 `invalidFilter`. */
export function parseFilter(text: string): ScimFilter {
  const tokens = new Tokens(text, 'invalidFilter')
  const filter = parseDisjunction(tokens, 0, false)
  return tokens.finish(filter)
}

/** Parses a path. Throws 400 `invalidPath`. */
export function parsePath(text: string): AttributePath {
  const tokens = new Tokens(text, 'invalidPath')
  return tokens.finish(readPath(tokens, 0, false))
}

/**
 * How many comparisons a patch, or a filter of one resource, may take at once: they last a tenth of a
 * second, in which everybody else waits.
 */
export const MOST_COMPARISONS = 1_000_000

/** Counts the comparisons that a filter takes of one value. */
export function countComparisons(filter: ScimFilter): number {
  if ('filters' in filter)
    return filter.filters.reduce((sum, one) => sum + countComparisons(one), 0)
  if (filter.op === 'not') return countComparisons(filter.filter)
  return 1 + (filter.path.filter ? countComparisons(filter.path.filter) : 0)
}

function parseDisjunction(tokens: Tokens, depth: number, within: boolean): ScimFilter {
  const filters = [parseConjunction(tokens, depth, within)]
  while (tokens.take('or')) filters.push(parseConjunction(tokens, depth, within))
  return joinFilters('or', filters)
}

function parseConjunction(tokens: Tokens, depth: number, within: boolean): ScimFilter {
  const filters = [parseTerm(tokens, depth, within)]
  while (tokens.take('and')) filters.push(parseTerm(tokens, depth, within))
  return joinFilters('and', filters)
}

const joinFilters = (op: 'and' | 'or', filters: ScimFilter[]): ScimFilter =>
  filters.length === 1 && filters[0] ? filters[0] : { op, filters }

function parseTerm(tokens: Tokens, depth: number, within: boolean): ScimFilter {
  if (tokens.take('(')) return parseBrackets(tokens, depth, within)
  if (!tokens.isNegation()) return parseComparison(tokens, depth, within)
  tokens.expect('not')
  tokens.expect('(')
  return { op: 'not', filter: parseBrackets(tokens, depth, within) }
}

function parseBrackets(tokens: Tokens, depth: number, within: boolean): ScimFilter {
  if (depth === DEEPEST) throw tokens.refusal(`at most ${DEEPEST} levels of brackets`)
  const filter = parseDisjunction(tokens, depth + 1, within)
  tokens.expect(')')
  return filter
}

// `emails[type eq "work"]` without an operator tests whether such a value exists.
function parseComparison(tokens: Tokens, depth: number, within: boolean): ScimFilter {
  const path = readPath(tokens, depth, within)
  if (tokens.take('pr')) return { op: 'pr', path }
  const op = COMPARISONS.find(operator => tokens.take(operator))
  if (op) return { op, path, value: tokens.takeValue() }
  if (path.filter && path.subAttribute === null) return { op: 'pr', path }
  throw tokens.refusal('an operator')
}

// A filter within brackets matches one value, which has no list of values itself (RFC 7644,
// figure 1: valFilter).
function readPath(tokens: Tokens, depth: number, within: boolean): AttributePath {
  const name = tokens.takeName()
  if (!tokens.take('[')) return { name, filter: null, subAttribute: null }
  if (within) throw tokens.refusal('no brackets within brackets')
  const filter = parseDisjunction(tokens, depth + 1, true)
  tokens.expect(']')
  return { name, filter, subAttribute: tokens.takeSubAttribute() }
}

interface Token {
  /** A bracket, a word, or a text with its quotes. */
  text: string
  start: number
}

/** The tokens of a text. Split by character: no regular expression runs on untrusted text. */
class Tokens {
  readonly #scimType: Exclude<ScimType, 'uniqueness'>
  readonly #tokens: Token[]
  #next = 0

  constructor(text: string, scimType: Exclude<ScimType, 'uniqueness'>) {
    this.#scimType = scimType
    if (text.length > LONGEST)
      throw refused(scimType, `expected at most ${LONGEST} characters, found ${text.length}`)
    this.#tokens = this.#splitTokens(text)
  }

  /** Takes the next token if it is this text, in any case. Returns whether it did. */
  take(text: string): boolean {
    const isNext = this.#peek()?.text.toLowerCase() === text
    if (isNext) this.#next += 1
    return isNext
  }

  /** Whether the next token is `not` before a bracket. Elsewhere it is an ordinary word. */
  isNegation(): boolean {
    return this.#peek()?.text.toLowerCase() === 'not' && this.#tokens[this.#next + 1]?.text === '('
  }

  expect(text: string): void {
    if (!this.take(text)) throw this.refusal(`“${text}”`)
  }

  /** Takes the name of an attribute. */
  takeName(): string {
    const token = this.#peek()
    if (!token || !isNameStart(token.text)) throw this.refusal('the name of an attribute')
    this.#next += 1
    return token.text
  }

  /** Takes the sub-attribute after a bracket, such as `.value`, if there is one. */
  takeSubAttribute(): string | null {
    const token = this.#peek()
    if (!token?.text.startsWith('.')) return null
    if (!isNameStart(token.text.slice(1))) throw this.refusal('the name of a sub-attribute')
    this.#next += 1
    return token.text.slice(1)
  }

  /** Takes a value: a text in quotes, a number, true, false or null. */
  takeValue(): FilterValue {
    const token = this.#peek()
    const value =
      token && parseJson(token.text.startsWith('"') ? token.text : token.text.toLowerCase())
    if (value === undefined || (typeof value === 'object' && value !== null))
      throw this.refusal('a value')
    this.#next += 1
    return value as FilterValue
  }

  /** Returns the result of parsing. Throws if tokens are left. */
  finish<T>(result: T): T {
    if (this.#peek()) throw this.refusal('the end')
    return result
  }

  refusal(expected: string) {
    const token = this.#peek()
    return refused(
      this.#scimType,
      `expected ${expected} ${token ? `at character ${token.start + 1}` : 'at the end'}`,
    )
  }

  #peek(): Token | undefined {
    return this.#tokens[this.#next]
  }

  #splitTokens(text: string): Token[] {
    const tokens: Token[] = []
    for (let start = 0; start < text.length; ) {
      const end = this.#findTokenEnd(text, start)
      if (end > start) tokens.push({ text: text.slice(start, end), start })
      start = Math.max(end, start + 1)
    }
    return tokens
  }

  /** Returns the end of the token that starts at this index; the same index for a space. */
  #findTokenEnd(text: string, start: number): number {
    const first = text.charAt(start)
    if (first === ' ') return start
    if ('()[]'.includes(first)) return start + 1
    const end = first === '"' ? findTextEnd(text, start) : findWordEnd(text, start)
    if (end === start) throw refused(this.#scimType, `expected nothing like character ${start + 1}`)
    return end
  }
}

function findTextEnd(text: string, start: number): number {
  for (let index = start + 1; index < text.length; index++) {
    if (text.charAt(index) === '\\') index += 1
    else if (text.charAt(index) === '"') return index + 1
  }
  return start
}

function findWordEnd(text: string, start: number): number {
  let index = start
  while (index < text.length && isWordPart(text.charCodeAt(index))) index += 1
  return index
}

const isLetter = (code: number) => (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)
const isDigit = (code: number) => code >= 0x30 && code <= 0x39
// Letters, digits and `-_.:$+`: names with their schema, and numbers.
const isWordPart = (code: number) =>
  isLetter(code) || isDigit(code) || '-_.:$+'.includes(String.fromCharCode(code))
const isNameStart = (text: string) => isLetter(text.charCodeAt(0)) || text.startsWith('$')

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
