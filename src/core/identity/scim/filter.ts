import { refused, type ScimType } from './refusal.ts'

/** A parsed filter (RFC 7644, 3.4.2.2). Names are as the client wrote them. */
export type Filter =
  | { op: 'and' | 'or'; filters: Filter[] }
  | { op: 'not'; filter: Filter }
  | { op: 'pr'; path: Path }
  | { op: Comparison; path: Path; value: Value }

export type Comparison = (typeof COMPARISONS)[number]
export type Value = string | number | boolean | null

/** A parsed path: `name.givenName`, `emails[type eq "work"].value` (RFC 7644, 3.5.2). */
export interface Path {
  /** The attribute as the client wrote it, with its schema and its sub-attribute. */
  name: string
  /** Selects values of the attribute; null selects all. */
  filter: Filter | null
  /** The sub-attribute after the filter. */
  sub: string | null
}

const COMPARISONS = ['eq', 'ne', 'co', 'sw', 'ew', 'gt', 'ge', 'lt', 'le'] as const

// The most characters and levels of a filter. No honest client needs more.
const LONGEST = 10_000
const DEEPEST = 20

/** Parses a filter. Throws 400 `invalidFilter`. */
export function parseFilter(text: string): Filter {
  const tokens = new Tokens(text, 'invalidFilter')
  const filter = disjunction(tokens, 0, false)
  return tokens.end(filter)
}

/** Parses a path. Throws 400 `invalidPath`. */
export function parsePath(text: string): Path {
  const tokens = new Tokens(text, 'invalidPath')
  return tokens.end(pathFrom(tokens, 0, false))
}

function disjunction(tokens: Tokens, depth: number, within: boolean): Filter {
  const filters = [conjunction(tokens, depth, within)]
  while (tokens.takes('or')) filters.push(conjunction(tokens, depth, within))
  return joined('or', filters)
}

function conjunction(tokens: Tokens, depth: number, within: boolean): Filter {
  const filters = [term(tokens, depth, within)]
  while (tokens.takes('and')) filters.push(term(tokens, depth, within))
  return joined('and', filters)
}

const joined = (op: 'and' | 'or', filters: Filter[]): Filter =>
  filters.length === 1 && filters[0] ? filters[0] : { op, filters }

function term(tokens: Tokens, depth: number, within: boolean): Filter {
  if (tokens.takes('(')) return bracketed(tokens, depth, within)
  if (!tokens.isNegation()) return comparison(tokens, depth, within)
  tokens.expect('not')
  tokens.expect('(')
  return { op: 'not', filter: bracketed(tokens, depth, within) }
}

function bracketed(tokens: Tokens, depth: number, within: boolean): Filter {
  if (depth === DEEPEST) throw tokens.refusal(`at most ${DEEPEST} levels of brackets`)
  const filter = disjunction(tokens, depth + 1, within)
  tokens.expect(')')
  return filter
}

// `emails[type eq "work"]` without an operator tests whether such a value exists.
function comparison(tokens: Tokens, depth: number, within: boolean): Filter {
  const path = pathFrom(tokens, depth, within)
  if (tokens.takes('pr')) return { op: 'pr', path }
  const op = COMPARISONS.find(one => tokens.takes(one))
  if (op) return { op, path, value: tokens.value() }
  if (path.filter && path.sub === null) return { op: 'pr', path }
  throw tokens.refusal('an operator')
}

// A filter within brackets matches one value, which has no list of values itself (RFC 7644,
// figure 1: valFilter).
function pathFrom(tokens: Tokens, depth: number, within: boolean): Path {
  const name = tokens.name()
  if (!tokens.takes('[')) return { name, filter: null, sub: null }
  if (within) throw tokens.refusal('no brackets within brackets')
  const filter = disjunction(tokens, depth + 1, true)
  tokens.expect(']')
  return { name, filter, sub: tokens.sub() }
}

interface Token {
  /** A bracket, a word, or a text with its quotes. */
  text: string
  at: number
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
    this.#tokens = this.#tokensOf(text)
  }

  /** Takes the next token if it is this text, in any case. Returns whether it did. */
  takes(text: string): boolean {
    const is = this.#peek()?.text.toLowerCase() === text
    if (is) this.#next += 1
    return is
  }

  /** Whether the next token is `not` before a bracket. Elsewhere it is an ordinary word. */
  isNegation(): boolean {
    return this.#peek()?.text.toLowerCase() === 'not' && this.#tokens[this.#next + 1]?.text === '('
  }

  expect(text: string): void {
    if (!this.takes(text)) throw this.refusal(`“${text}”`)
  }

  /** Takes the name of an attribute. */
  name(): string {
    const token = this.#peek()
    if (!token || !isNameStart(token.text)) throw this.refusal('the name of an attribute')
    this.#next += 1
    return token.text
  }

  /** Takes the sub-attribute after a bracket, such as `.value`, if there is one. */
  sub(): string | null {
    const token = this.#peek()
    if (!token?.text.startsWith('.')) return null
    if (!isNameStart(token.text.slice(1))) throw this.refusal('the name of a sub-attribute')
    this.#next += 1
    return token.text.slice(1)
  }

  /** Takes a value: a text in quotes, a number, true, false or null. */
  value(): Value {
    const token = this.#peek()
    const value =
      token && jsonOf(token.text.startsWith('"') ? token.text : token.text.toLowerCase())
    if (value === undefined || (typeof value === 'object' && value !== null))
      throw this.refusal('a value')
    this.#next += 1
    return value as Value
  }

  /** Returns the result of parsing. Throws if tokens are left. */
  end<T>(made: T): T {
    if (this.#peek()) throw this.refusal('the end')
    return made
  }

  refusal(expected: string) {
    const token = this.#peek()
    return refused(
      this.#scimType,
      `expected ${expected} ${token ? `at character ${token.at + 1}` : 'at the end'}`,
    )
  }

  #peek(): Token | undefined {
    return this.#tokens[this.#next]
  }

  #tokensOf(text: string): Token[] {
    const tokens: Token[] = []
    for (let at = 0; at < text.length; ) {
      const end = this.#endOf(text, at)
      if (end > at) tokens.push({ text: text.slice(at, end), at })
      at = Math.max(end, at + 1)
    }
    return tokens
  }

  /** Returns the end of the token that starts at this index; the same index for a space. */
  #endOf(text: string, at: number): number {
    const first = text.charAt(at)
    if (first === ' ') return at
    if ('()[]'.includes(first)) return at + 1
    const end = first === '"' ? endOfText(text, at) : endOfWord(text, at)
    if (end === at) throw refused(this.#scimType, `expected nothing like character ${at + 1}`)
    return end
  }
}

function endOfText(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text.charAt(at) === '\\') at += 1
    else if (text.charAt(at) === '"') return at + 1
  }
  return start
}

function endOfWord(text: string, start: number): number {
  let at = start
  while (at < text.length && isWordPart(text.charCodeAt(at))) at += 1
  return at
}

const isLetter = (code: number) => (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)
const isDigit = (code: number) => code >= 0x30 && code <= 0x39
// Letters, digits and `-_.:$+`: names with their schema, and numbers.
const isWordPart = (code: number) =>
  isLetter(code) || isDigit(code) || '-_.:$+'.includes(String.fromCharCode(code))
const isNameStart = (text: string) => isLetter(text.charCodeAt(0)) || text.startsWith('$')

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
