import metadata from 'libphonenumber-js/min/metadata'
import { seekCode, seekDigits } from './anchors.ts'
import { areDigits, type Builtin, isDigit } from './builtin.ts'
import { LABELS } from './labels.data.ts'

/**
 * Tells whether a number with a plus sign has a length that numbers of its calling code have, by the
 * tables of `libphonenumber-js`. Of the countries that share a code it is any: to look for the one
 * takes a hundred times as long. Signs between the digits mean nothing.
 */
export function isPossibleNumber(text: string, start: number, end: number): boolean {
  const count = readDigits(text, start, end)
  const codeLength = count > 0 && count <= MOST_DIGITS ? findCodeLength(count) : 0
  if (codeLength === 0) return false
  const plan = getPlan(readCode(codeLength)) as Plan
  const length = count - codeLength
  if (length < SHORTEST) return false
  return plan.prefix && mayBeginWith(plan.prefixDigits, codeLength)
    ? judgeWithPrefix(plan, plan.prefix, DIGITS.toString('latin1', codeLength, count))
    : hasLength(plan, length)
}

/** What numbers with one calling code are like. */
interface Plan {
  /** Which lengths are possible in any of its countries: a bit for each. */
  lengths: number
  /** The same of its main country, which decides about prefixes. */
  mainLengths: number
  longest: number
  /** What is dialled before a number within the country. */
  prefix: RegExp | null
  /** The same, if it is always these digits. */
  prefixDigits: string
  /** What becomes of the prefix and what it captures, if not nothing. */
  transform: string | undefined
  pattern: RegExp
}

const SHORTEST = 2
const MOST_DIGITS = 32
const LONGEST_CODE = 3

const ZERO = 0x30
const DIGITS = Buffer.alloc(MOST_DIGITS)

/** Reads the digits of a part of a text into `DIGITS`, and returns how many there are. */
function readDigits(text: string, start: number, end: number): number {
  let count = 0
  for (let i = start; i < end; i++) {
    const code = text.charCodeAt(i)
    if (isDigit(code)) DIGITS[count++] = code
  }
  return count
}

/** Finds how many digits the calling code has; 0 if there is none. */
function findCodeLength(count: number): number {
  if (DIGITS[0] === ZERO) return 0
  for (let length = 1; length <= LONGEST_CODE && length <= count; length++)
    if (getPlan(readCode(length))) return length
  return 0
}

function readCode(length: number): number {
  let code = 0
  for (let i = 0; i < length; i++) code = 10 * code + (DIGITS[i] as number) - ZERO
  return code
}

const hasLength = ({ lengths }: Plan, length: number): boolean => (lengths & (1 << length)) !== 0

const isTooShort = ({ mainLengths, longest }: Plan, length: number): boolean =>
  length <= longest && (mainLengths & (1 << length)) === 0

/** Tells whether the number may begin with the prefix; of one that varies it is not known. */
function mayBeginWith(digits: string, codeLength: number): boolean {
  for (let i = 0; i < digits.length; i++)
    if (DIGITS[codeLength + i] !== digits.charCodeAt(i)) return false
  return true
}

/**
 * Judges a number that may begin with a prefix. It is taken off unless only the whole number is one
 * of the country, or what is left is too short.
 */
function judgeWithPrefix(plan: Plan, prefix: RegExp, number: string): boolean {
  const judged = hasLength(plan, number.length)
  const match = prefix.exec(number)
  const rest = match ? takePrefix(plan, prefix, number, match) : number
  if (rest === number || isTooShort(plan, rest.length)) return judged
  const ofRest = hasLength(plan, rest.length)
  if (judged === ofRest) return judged
  return plan.pattern.test(number) && !plan.pattern.test(rest) ? judged : ofRest
}

function takePrefix(
  { transform }: Plan,
  prefix: RegExp,
  number: string,
  match: RegExpExecArray,
): string {
  return transform && match.length > 1 && match.at(-1)
    ? number.replace(prefix, transform)
    : number.slice(match[0].length)
}

/** The plans by calling code; null where there is none. */
const plans: (Plan | null | undefined)[] = []

function getPlan(code: number): Plan | null {
  const known = plans[code]
  if (known !== undefined) return known
  const plan = buildPlan(String(code))
  plans[code] = plan
  return plan
}

/** The places of what is used here in a country's entry, as the library has them. */
const [PATTERN, LENGTHS, PREFIX, PREFIX_FOR_PARSING, TRANSFORM] = [2, 3, 5, 7, 8]

function buildPlan(code: string): Plan | null {
  const countries = metadata.country_calling_codes[code as never] as string[] | undefined
  const entries = countries
    ? countries.map(country => metadata.countries[country as never] as unknown[])
    : [metadata.nonGeographic[code as never] as unknown[]]
  const [main] = entries
  if (!main) return null
  const lengths = entries.map(entry => entry[LENGTHS] as number[])
  const prefix = main[PREFIX_FOR_PARSING] || main[PREFIX]
  return {
    lengths: toBits(lengths.flat()),
    mainLengths: toBits(lengths[0] ?? []),
    longest: Math.max(...(lengths[0] ?? [])),
    prefix: prefix ? new RegExp(`^(?:${prefix})`) : null,
    prefixDigits: /^\d+$/.test(`${prefix}`) ? `${prefix}` : '',
    transform: (main[TRANSFORM] as string) || undefined,
    pattern: new RegExp(`^(?:${main[PATTERN]})$`),
  }
}

const toBits = (lengths: number[]): number =>
  lengths.reduce((all, length) => all | (1 << length), 0)

// Documented forms: `914-309-4996`, with dots, spaces or nothing between. Area codes and exchanges
// begin with 2 to 9 (NANP).
const AMERICAN =
  '\\b(?:1[ .-]?)?(?:\\([2-9]\\d{2}\\) ?|[2-9]\\d{2}[ .-]?)[2-9]\\d{2}[ .-]?\\d{4}\\b'
const BRACKETED = '\\([2-9]\\d{2}\\)[ .-]?[2-9]\\d{2}[ .-]?\\d{4}\\b'
const INTERNATIONAL = '\\+\\d(?:[ ().\\x{A0}/-]{0,2}\\d){6,14}\\b'

/**
 * Finds telephone numbers: with a country code in each country's form, and without one in the form
 * of the United States.
 */
export const phone: Builtin = {
  label: LABELS.phone,
  name: 'Phone number',
  detectors: [
    { pattern: INTERNATIONAL, accepts: isPossibleNumber, anchor: seekPlus },
    { pattern: `${AMERICAN}|${BRACKETED}`, anchor: seekDigits(3, isExchange) },
  ],
}

const [PLUS, BLANK, DOT, DASH, BRACKET, TWO] = [0x2b, 0x20, 0x2e, 0x2d, 0x29, 0x32]

const seekSign = seekCode(PLUS)

/** Finds a plus sign before a digit. */
function seekPlus(text: string, from: number, to: number): number {
  let at = seekSign(text, from, to)
  while (at !== -1 && !isDigit(text.charCodeAt(at + 1))) at = seekSign(text, at + 1, to)
  return at
}

/**
 * Tells whether the three digits at this place are an exchange: an area code stands before them, and
 * four digits follow, each with a sign between or without one.
 */
function isExchange(text: string, at: number): boolean {
  if (text.charCodeAt(at) < TWO) return false
  const line = isSign(text.charCodeAt(at + 3)) ? at + 4 : at + 3
  if (!areDigits(text, line, 4)) return false
  const end = isSign(text.charCodeAt(at - 1)) ? at - 1 : at
  const area = text.charCodeAt(end - 1) === BRACKET ? end - 4 : end - 3
  return areDigits(text, area, 3) && text.charCodeAt(area) >= TWO
}

const isSign = (code: number): boolean => code === BLANK || code === DOT || code === DASH
