import { parseCount } from '../base/json.ts'

/** What a call used and what it cost. */

/**
 * Token counts in disjoint classes that add up to the totals (decisions.md, Money and time), and
 * counts of other units.
 */
export interface Usage {
  input: {
    text: number
    cache_read: number
    cache_write: number
    cache_write_1h: number
    audio: number
    video: number
    /** Of pictures, where the provider counts them by themselves; else they are among the text. */
    image?: number
  }
  output: { text: number; reasoning: number; audio: number; image: number }
  prediction: { accepted: number; rejected: number } | null
  /** Absent if only tokens were counted. */
  units?: Units
  /** How pictures were drawn: their price may depend on it. */
  drawn?: Drawn
  /** The tokens that the provider charges, if they differ from those that it counts. */
  billed?: Pick<Usage, 'input' | 'output'>
  /** Set if the provider reported counts that no answer can have. The others are zero then. */
  isImpossible?: true
}

/** How pictures are drawn, as far as it is known. */
export interface Drawn {
  quality?: string
  resolution?: string
}

/** What one call used and cost. Money in nano-dollars; null if the endpoint has no price. */
export interface Receipt {
  usage: Usage
  usageSource: 'exact' | 'estimated' | 'none'
  /** The charge for the gateway's credential. 0 if the callers' own key pays the provider. */
  cost: bigint | null
  /** What the provider charges, with either credential. */
  cost_details: CostDetails | null
  is_byok: boolean
  /** Absent if the call asked for none of the gateway's own tools. */
  serverTools?: ServerToolCounts
}

/** What a call cost, by what it was for. `tools` is absent where no tool had a price. */
interface CostDetails {
  prompt: bigint
  completion: bigint
  tools?: bigint
}

/** Returns what the provider and the tools of a call charge, with either credential. */
export const sumCosts = ({ prompt, completion, tools = 0n }: CostDetails): bigint =>
  prompt + completion + tools

/** Computes what the provider charges. Null if unknown. */
export const computeUpstreamCost = ({ cost_details }: Receipt): bigint | null =>
  cost_details && sumCosts(cost_details)

export const countInputTokens = ({ input }: Usage): number =>
  input.text +
  input.cache_read +
  input.cache_write +
  input.cache_write_1h +
  input.audio +
  input.video +
  (input.image ?? 0)

export const countOutputTokens = ({ output }: Usage): number =>
  output.text + output.reasoning + output.audio + output.image

/** Returns how often the web was searched; null if the provider did not report it. */
export const getSearchCount = ({ units }: Usage): number | null => units?.search ?? null

/** Tells whether no work was counted: no tokens, and only supplementary units. */
export const hasNoWork = (usage: Usage): boolean =>
  countInputTokens(usage) + countOutputTokens(usage) === 0 &&
  !hasUnits(usage, row => !row.isSupplementary)

/** Tells whether any output was counted, in tokens or in other units. */
export function hasOutput(usage: Usage): boolean {
  return countOutputTokens(usage) > 0 || hasUnits(usage, row => row.side === 'output')
}

const hasUnits = ({ units = {} }: Usage, matches: (row: UnitRow) => boolean): boolean =>
  listUnits(units).some(unit => matches(UNITS[unit]) && (units[unit] ?? 0) > 0)

/** Creates a usage of text tokens only. */
export const createTextUsage = (prompt: number, completion: number): Usage => ({
  input: { text: prompt, cache_read: 0, cache_write: 0, cache_write_1h: 0, audio: 0, video: 0 },
  output: { text: completion, reasoning: 0, audio: 0, image: 0 },
  prediction: null,
})

/** Creates the usage of a provider whose counts are negative, fractions, absurd or no numbers. */
export const createImpossibleUsage = (): Usage => ({ ...createTextUsage(0, 0), isImpossible: true })

/** Creates the receipt of a call that costs nothing. */
export const createFreeReceipt = (usage: Usage, is_byok = false): Receipt => ({
  usage,
  usageSource: 'none',
  cost: 0n,
  cost_details: { prompt: 0n, completion: 0n },
  is_byok,
})

/**
 * Adds up the receipts of the steps of one call; undefined for none. A step without a known price
 * adds nothing to the cost, so that the sum is what was charged.
 */
export function sumReceipts(receipts: Receipt[]): Receipt | undefined {
  if (receipts.length < 2) return receipts[0]
  return receipts.reduce((sum, receipt) => ({
    usage: sumUsage(sum.usage, receipt.usage),
    usageSource: pickUsageSource(sum.usageSource, receipt.usageSource),
    cost:
      sum.cost === null || receipt.cost === null
        ? (sum.cost ?? receipt.cost)
        : sum.cost + receipt.cost,
    cost_details: sumCostDetails(sum.cost_details, receipt.cost_details),
    is_byok: receipt.is_byok,
  }))
}

const SOURCES_BY_CERTAINTY = ['none', 'exact', 'estimated'] as const

/** Returns the less certain source: a sum that is partly estimated is estimated. */
const pickUsageSource = (a: Receipt['usageSource'], b: Receipt['usageSource']) =>
  SOURCES_BY_CERTAINTY.indexOf(a) > SOURCES_BY_CERTAINTY.indexOf(b) ? a : b

const sumCostDetails = (
  a: Receipt['cost_details'],
  b: Receipt['cost_details'],
): Receipt['cost_details'] =>
  a && b
    ? {
        prompt: a.prompt + b.prompt,
        completion: a.completion + b.completion,
        ...(a.tools === undefined && b.tools === undefined
          ? {}
          : { tools: (a.tools ?? 0n) + (b.tools ?? 0n) }),
      }
    : (a ?? b)

/** Adds up what two answers used. Of a sum with a part that cannot be, nothing is known. */
export const sumUsage = (a: Usage, b: Usage): Usage => ({
  input: sumCounts(a.input, b.input),
  output: sumCounts(a.output, b.output),
  prediction:
    a.prediction && b.prediction
      ? sumCounts(a.prediction, b.prediction)
      : (a.prediction ?? b.prediction),
  ...sumUnits(a.units, b.units),
  ...(a.isImpossible || b.isImpossible ? { isImpossible: true } : {}),
})

// Either may have a class that the other has not: that of pictures.
const sumCounts = <Counts extends Record<string, number>>(a: Counts, b: Counts): Counts =>
  Object.fromEntries(
    Object.keys({ ...a, ...b }).map(name => [name, (a[name] ?? 0) + (b[name] ?? 0)]),
  ) as Counts

/** How often the gateway's own tools were called and used. */
export interface ServerToolCounts {
  requested: number
  executed: number
  /** Searches of the web, and pages that were fetched. */
  searches: number
  fetches: number
  /** The bound that left nothing for a turn or a use; absent if none did. */
  endedBy?: string
}

/** Units that are counted and priced individually, unlike tokens. A new unit is one row here. */

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
