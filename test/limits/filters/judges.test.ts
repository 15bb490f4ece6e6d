import { expect, test } from 'bun:test'
import parsePhoneNumber, {
  type CountryCallingCode,
  type CountryCode,
  type PhoneNumber,
} from 'libphonenumber-js/min'
import metadata from 'libphonenumber-js/min/metadata'
import isCreditCard from 'validator/es/lib/isCreditCard.js'
import isIP from 'validator/es/lib/isIP.js'
import { creditCard } from '../../../src/limits/filters/credit-card.ts'
import { isIpv4, isIpv6 } from '../../../src/limits/filters/ip-address.ts'
import { isPossibleNumber } from '../../../src/limits/filters/phone.ts'
import { createSeededIntegers, LONG, SEED } from '../../support/random.ts'

/*
 * What decides about a match is written by hand where a library takes microseconds. It decides as
 * the library does.
 */

const CASES = LONG ? 100_000 : 1_500
const random = createSeededIntegers(SEED)
const pick = <One>(list: readonly One[]): One => list[random(list.length)] as One
const repeat = (count: number, build: () => string): string =>
  Array.from({ length: count }, build).join('')

/** Draws texts, and returns those of which both say something else, and how many are the thing. */
function compare(
  draw: () => string,
  judge: (text: string) => boolean,
  library: (text: string) => boolean,
) {
  const different: string[] = []
  let count = 0
  for (let i = 0; i < CASES; i++) {
    const text = draw()
    const expected = library(text)
    if (judge(text) !== expected) different.push(text)
    if (expected) count += 1
  }
  return { different, isBoth: count > CASES / 50 && count < CASES }
}

const AGREED = { different: [], isBoth: true }

const CODES = [
  ...Object.keys(metadata.country_calling_codes),
  ...Object.keys(metadata.nonGeographic),
]
const PREFIXES = ['', '', '', '0', '00', '8', '1', '15', '9', '06', '11', '0180020', '011', '340']
const SEPARATORS = ['', '', '', ' ', '.', '-', ' (', ') ', '/', '\u00a0']

function drawNumber(): string {
  const start = pick([...CODES, String(random(1_000))]) + pick(PREFIXES)
  const digits = (start + repeat(15, () => String(random(10)))).slice(0, 7 + random(9))
  return `+${[...digits].join('|').replaceAll('|', () => pick(SEPARATORS))}`
}

const listCountries = (code: string): CountryCode[] =>
  metadata.country_calling_codes[code as CountryCallingCode] ?? []

/** Of a number whose length only some countries of its calling code have, any of them will do. */
function isPossibleAnywhere(number: PhoneNumber): boolean {
  const { countryCallingCode, nationalNumber } = number
  const lengths = listCountries(countryCallingCode).flatMap(
    country => (metadata.countries[country]?.[3] ?? []) as number[],
  )
  return lengths.includes(nationalNumber.length)
}

const isPossible = (text: string) => isPossibleNumber(text, 0, text.length)

test(`telephone numbers are judged as libphonenumber does (seed ${SEED})`, () => {
  const library = (text: string) => {
    const number = parsePhoneNumber(text)
    return number !== undefined && (number.isPossible() || isPossibleAnywhere(number))
  }
  expect(compare(drawNumber, isPossible, library)).toEqual(AGREED)
})

const BYTES = ['0', '1', '9', '10', '99', '127', '199', '200', '249', '255', '256', '300', '01', '']
const GROUPS = ['0', '1', 'ff', 'Db8', '2001', 'ffff', '12345', 'g', '', '10.0.0.1', '1.2.3']

test('addresses are judged as validator does', () => {
  const drawIpv4 = () =>
    Array.from({ length: pick([4, 4, 4, 4, 3, 5]) }, () => pick(BYTES)).join('.')
  const drawIpv6 = () =>
    Array.from({ length: pick([8, 8, 7, 7, 1 + random(9)]) }, () => pick(GROUPS.slice(0, 6)))
      .concat(pick(GROUPS))
      .slice(random(2))
      .map(group => group + pick([':', ':', ':', ':', ':', ':', '::']))
      .join('')
      .slice(0, pick([-1, -1, -1, undefined]))
  expect(
    compare(
      drawIpv4,
      text => isIpv4(text, 0, text.length),
      text => isIP(text, 4),
    ),
  ).toEqual(AGREED)
  expect(
    compare(
      drawIpv6,
      text => isIpv6(text, 0, text.length),
      text => isIP(text, 6),
    ),
  ).toEqual(AGREED)
})

const NETWORKS = ['4', '34', '37', '51', '55', '2221', '2720', '6011', '65', '2131', '1800', '35']

/** Finds the last group of digits of the first card among groups, as slowly as can be. */
function findFirst(text: string): [number, number] | null {
  const groups = [...text.matchAll(/\d+/g)]
  for (const [i, first] of groups.entries())
    for (let [last, digits] = [i, '']; last < groups.length; last++) {
      digits += groups[last]?.[0]
      if (digits.length > 19) break
      const end = (groups[last]?.index ?? 0) + (groups[last]?.[0].length ?? 0)
      if (digits.length >= 13 && isCreditCard(digits)) return [first.index, end]
    }
  return null
}

test('numbers of cards are judged as validator does', () => {
  const find = creditCard.detectors[0]?.findSpans
  const different: string[] = []
  for (let i = 0; i < CASES / 4; i++) {
    const before = pick(['', '', '7 ', '12 2026 ', '0 1 2 '])
    const digits =
      pick([...NETWORKS, '81', '62', '305', '9']) + repeat(18, () => String(random(10)))
    const grouped = digits.slice(0, 13 + random(7)).replace(/\d{4}/g, pick(['$& ', '$&', '$&-']))
    const text = `${before}${grouped}${pick(['', ' 4', ' 1234 5678'])}`
    const [found] = [...(find?.(text) ?? [])].filter(span => span !== null)
    const [start, end] = findFirst(text) ?? []
    if (found?.start !== start || found?.end !== end) different.push(text)
  }
  expect(different).toEqual([])
})
