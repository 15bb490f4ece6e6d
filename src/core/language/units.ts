/** Units that are counted and priced individually, unlike tokens. A new unit is one row here. */

import { count } from '../kernel/json.ts'

export interface UnitRow {
  /** The name of its price in the config: USD per unit. */
  price: string
  /** The name of that price in the public list; absent if the list has none. */
  listedAs?: string
  /** The side of a cost that it belongs to. */
  side: 'input' | 'output'
  /** Counts per unit: 1000 if providers measure fractions, because only integers are counted. */
  parts: 1 | 1000
  /** The highest price in USD. A higher one is a mistake: a price per thousand or per million. */
  dearest: number
  /** Whether it only accompanies tokens or another unit and is never the work by itself. */
  isBeside: boolean
  /** What one unit is. */
  one: string
}

const MAIN = { parts: 1, dearest: 1, isBeside: false } as const
const MEASURED = { ...MAIN, parts: 1000, dearest: 10 } as const
const IN = { ...MAIN, side: 'input' } as const
const OUT = { ...MAIN, side: 'output' } as const

export const UNITS = {
  search: {
    ...IN,
    price: 'web_search',
    listedAs: 'web_search',
    isBeside: true,
    one: 'web search',
  },
  search_unit: {
    ...IN,
    price: 'per_search_unit',
    one: 'ranking unit: one query over some documents',
  },
  character: { ...IN, price: 'per_character', dearest: 0.01, one: 'input character' },
  input_image: { ...IN, price: 'per_input_image', listedAs: 'image', one: 'input image' },
  input_megapixel: {
    ...IN,
    ...MEASURED,
    price: 'per_input_megapixel',
    one: 'input megapixel',
  },
  input_second: {
    ...IN,
    ...MEASURED,
    price: 'per_input_second',
    one: 'second of input audio or video',
  },
  image: { ...OUT, price: 'per_image', listedAs: 'image_output', one: 'output image' },
  megapixel: { ...OUT, ...MEASURED, price: 'per_megapixel', one: 'output megapixel' },
  second: {
    ...OUT,
    ...MEASURED,
    price: 'per_second',
    one: 'second of output audio or video',
  },
} as const satisfies Record<string, UnitRow>

export type Unit = keyof typeof UNITS

/** The name of a unit's price in the config. */
export type UnitPrice = (typeof UNITS)[Unit]['price']

export const UNIT_ROWS: (UnitRow & { price: UnitPrice })[] = Object.values(UNITS)

/** The count of each unit: whole units, or thousandths if fractions are measured. */
export type Units = Partial<Record<Unit, number>>

export const namesOfUnits = (units: Partial<Record<Unit, unknown>>): Unit[] =>
  Object.keys(units) as Unit[]

/**
 * Reads the amounts that a provider reports, as a field to spread into a usage. Fractions of
 * measured units are rounded to the nearest thousandth. Amounts that no answer can have (negative,
 * NaN, absurdly large, a fraction of a whole unit) are left out, as are such token counts.
 */
export function readUnits(told: Partial<Record<Unit, unknown>>): { units?: Units } {
  const units: Units = {}
  for (const unit of namesOfUnits(told)) {
    const amount = readAmount(told[unit], UNITS[unit].parts)
    if (amount !== undefined) units[unit] = amount
  }
  return spreadable(units)
}

function readAmount(amount: unknown, parts: number): number | undefined {
  if (parts === 1 || typeof amount !== 'number' || amount < 0) return count(amount)
  return count(Math.round(amount * parts))
}

/** Adds up the counts of both, as a field to spread into a usage. */
export function sumUnits(a: Units = {}, b: Units = {}): { units?: Units } {
  const sum: Units = { ...a }
  for (const unit of namesOfUnits(b)) sum[unit] = (sum[unit] ?? 0) + (b[unit] ?? 0)
  return spreadable(sum)
}

const spreadable = (units: Units): { units?: Units } =>
  namesOfUnits(units).length === 0 ? {} : { units }
