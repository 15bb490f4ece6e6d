import { RE2JS, RE2JSException, RE2JSSyntaxException } from 're2js'
import { GatewayError } from '../base/errors.ts'
import { compileProgram, type Program } from './patterns/program.ts'

/**
 * The longest pattern. The public service takes 100,000 characters, but no one could read such a
 * pattern, and each instruction costs time on every character of every text.
 */
export const LONGEST_PATTERN = 1_000

/** The largest program, in instructions: the most that one character of a text may cost. */
export const LARGEST_PROGRAM = 1_000

/**
 * Returns the program of a user's pattern in JavaScript's syntax. Programs are cached, newest
 * first, since many keys share their patterns. Throws 400 for an invalid pattern.
 *
 * It runs on RE2, in time linear in the text, so nested quantifiers are fine here, although the
 * public service refuses them. The differences from JavaScript: a pattern matches characters, not
 * UTF-16 units; `.` matches a carriage return too; `\S` in brackets matches spaces that are not
 * ASCII; `\A`, `\z`, `\Q…\E`, `\a` and `(?i)` have RE2's meaning. Case matters, unless `(?i)` is in
 * front.
 */
export function getPatternProgram(pattern: string, field = 'content_filters'): Program {
  const cached = compiled.get(pattern)
  if (cached) return cached
  const program = compilePattern(pattern, field)
  const oldest = compiled.size >= MAX_KEPT ? compiled.keys().next().value : undefined
  if (oldest !== undefined) compiled.delete(oldest)
  compiled.set(pattern, program)
  return program
}

const compiled = new Map<string, Program>()
const MAX_KEPT = 1_000

function compilePattern(pattern: string, field: string): Program {
  if (pattern.length > LONGEST_PATTERN)
    throw invalidPattern(`expected a pattern of at most ${LONGEST_PATTERN} characters`, field)
  const unsupported = findUnsupported(pattern)
  if (unsupported) throw invalidPattern(unsupported, field)
  const program = parsePattern(pattern, field)
  if (program.size > LARGEST_PROGRAM)
    throw invalidPattern(
      'the pattern is too large: its counted repetitions come to ' +
        `${program.size} steps, and ${LARGEST_PROGRAM} are allowed`,
      field,
    )
  return program
}

function parsePattern(pattern: string, field: string): Program {
  try {
    return compileProgram(widenSpaces(RE2JS.translateRegExp(pattern.normalize('NFC'))))
  } catch (error) {
    throw error instanceof RE2JSException
      ? invalidPattern(describeSyntaxError(error), field, error)
      : error
  }
}

const invalidPattern = (reason: string, field: string, cause?: unknown) =>
  new GatewayError('invalid_request', `${field}: ${reason}`, {
    metadata: { field, code: 'invalid_regex_pattern' },
    cause,
  })

/**
 * Returns RE2's own words for the error, of which there are few. The pattern itself is not
 * repeated.
 */
function describeSyntaxError(error: RE2JSException): string {
  const words = error instanceof RE2JSSyntaxException ? error.error : ''
  if (/repeat count/.test(words))
    return 'a counted repetition goes from a smaller to a larger number, and comes to at most 1000'
  const detail = /^[a-z()[\] ]{1,60}$/i.test(words) ? ` (${words})` : ''
  return `the pattern is not a valid regular expression${detail}`
}

/**
 * Finds JavaScript syntax that cannot be matched in linear time, and returns the reason. In
 * brackets and after a backslash the same characters are literal.
 */
function findUnsupported(pattern: string): string | undefined {
  for (const { token, inBrackets } of tokenizePattern(pattern)) {
    if (inBrackets) continue
    if (/^\\(?:[1-9]|k<)/.test(token))
      return 'back-references are not supported: no pattern with them can be matched in linear time'
    if (/^\(\?<?[=!]/.test(token))
      return (
        'look-ahead and look-behind are not supported: ' +
        'no pattern with them can be matched in linear time'
      )
  }
  return undefined
}

/**
 * Widens `\s` and `\S`: in JavaScript they cover every space of Unicode, in RE2 only those of
 * ASCII. A filter that misses some is useless.
 */
function widenSpaces(pattern: string): string {
  let wide = ''
  for (const { token, inBrackets } of tokenizePattern(pattern)) {
    if (token === '\\s') wide += inBrackets ? SPACES : `[${SPACES}]`
    else wide += token === '\\S' && !inBrackets ? `[^${SPACES}]` : token
  }
  return wide
}

const SPACES = '\\s\\v\\p{Z}\\x{FEFF}'

interface Token {
  token: string
  inBrackets: boolean
}

/**
 * Splits a pattern into pieces: an escape, the start of a group, and otherwise single characters.
 */
function tokenizePattern(pattern: string): Token[] {
  const found: Token[] = []
  let inBrackets = false
  for (const [token] of pattern.matchAll(TOKEN)) {
    if (token === '[' && !inBrackets) inBrackets = true
    else if (token === ']') inBrackets = false
    found.push({ token, inBrackets })
  }
  return found
}

// Each piece has at most six characters, so this cannot take long.
const TOKEN = /\\k<|\\[\s\S]|\(\?<?[=!]|\\|[^\\]/gu
