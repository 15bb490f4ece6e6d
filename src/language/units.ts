/** Units that are counted and priced individually, unlike tokens. A new unit is one row here. */

import { parseCount } from '../base/json.ts'

export interface UnitRow {
  /** The name of its price in the config: USD per unit. */
  price: string
  /** The name of that price in the public list; absent if the list has none. */
  publicPriceName?: string
  /** The side of a cost that it belongs to. */
  side: 'input' | 'output'
  /** Counts per unit: 1000 if providers measure fractions, because only integers are counted. */
  partsPerUnit: 1 | 1000
  /** The price that applies where it has none of its own: it is a variant of another unit. */
  otherwise?: string
  /** The highest price in USD. A higher one is a mistake: a price per thousand or per million. */
  maxPrice: number
  /** The highest count that an answer can have, where it is less than that of tokens. */
  maxCount?: number
  /** Whether it only accompanies tokens or another unit and is never the work by itself. */
  isSupplementary: boolean
  /** What one unit is. */
  description: string
}

const BASE = { partsPerUnit: 1, maxPrice: 1, isSupplementary: false } as const
const MEASURED = { ...BASE, partsPerUnit: 1000, maxPrice: 10 } as const
const INPUT = { ...BASE, side: 'input' } as const
const OUTPUT = { ...BASE, side: 'output' } as const

export const UNITS = {
  search: {
    ...INPUT,
    price: 'web_search',
    publicPriceName: 'web_search',
    isSupplementary: true,
    description: 'web search',
  },
  search_unit: {
    ...INPUT,
    price: 'per_search_unit',
    description: 'ranking unit: one query over some documents',
  },
  character: { ...INPUT, price: 'per_character', maxPrice: 0.01, description: 'input character' },
  input_image: {
    ...INPUT,
    price: 'per_input_image',
    publicPriceName: 'image',
    description: 'input image',
  },
  input_megapixel: {
    ...INPUT,
    ...MEASURED,
    price: 'per_input_megapixel',
    description: 'input megapixel',
  },
  input_second: {
    ...INPUT,
    ...MEASURED,
    price: 'per_input_second',
    description: 'second of input audio or video',
  },
  image: {
    ...OUTPUT,
    price: 'per_image',
    publicPriceName: 'image_output',
    description: 'output image',
  },
  megapixel: { ...OUTPUT, ...MEASURED, price: 'per_megapixel', description: 'output megapixel' },
  second: {
    ...OUTPUT,
    ...MEASURED,
    price: 'per_second',
    description: 'second of output audio or video',
  },
  second_1080p: {
    ...OUTPUT,
    ...MEASURED,
    price: 'per_second_1080p',
    otherwise: 'per_second',
    description: 'second of video of more than 800 lines; same as per_second when absent',
  },
  second_4k: {
    ...OUTPUT,
    ...MEASURED,
    price: 'per_second_4k',
    otherwise: 'per_second',
    description: 'second of video of more than 1,200 lines; same as per_second when absent',
  },
  video: {
    ...OUTPUT,
    price: 'per_video',
    maxPrice: 100,
    maxCount: 1_000_000,
    description: 'video',
  },
} as const satisfies Record<string, UnitRow>

export type Unit = keyof typeof UNITS

/** The name of a unit's price in the config. */
export type UnitPrice = (typeof UNITS)[Unit]['price']

export const UNIT_ROWS: (UnitRow & { price: UnitPrice })[] = Object.values(UNITS)

/** The count of each unit: whole units, or thousandths if fractions are measured. */
export type Units = Partial<Record<Unit, number>>

export const listUnits = (units: Partial<Record<Unit, unknown>>): Unit[] =>
  Object.keys(units) as Unit[]

/**
 * Reads the amounts that a provider reports, as a field to spread into a usage. Fractions of
 * measured units are rounded to the nearest thousandth. Amounts that no answer can have (negative,
 * NaN, absurdly large, a fraction of a whole unit) are left out, as are such token counts.
 */
export function readUnits(amounts: Partial<Record<Unit, unknown>>): { units?: Units } {
  const units: Units = {}
  for (const unit of listUnits(amounts)) {
    const amount = readAmount(amounts[unit], UNITS[unit])
    if (amount !== undefined) units[unit] = amount
  }
  return toUnitsField(units)
}

function readAmount(
  amount: unknown,
  { partsPerUnit, maxCount = Number.POSITIVE_INFINITY }: UnitRow,
): number | undefined {
  const isMeasured = partsPerUnit > 1 && typeof amount === 'number' && amount >= 0
  const count = parseCount(isMeasured ? Math.round(amount * partsPerUnit) : amount)
  return count === undefined || count > maxCount ? undefined : count
}

/** Adds up the counts of both, as a field to spread into a usage. */
export function sumUnits(a: Units = {}, b: Units = {}): { units?: Units } {
  const sum: Units = { ...a }
  for (const unit of listUnits(b)) sum[unit] = (sum[unit] ?? 0) + (b[unit] ?? 0)
  return toUnitsField(sum)
}

const toUnitsField = (units: Units): { units?: Units } =>
  listUnits(units).length === 0 ? {} : { units }
