import { type Static, Type } from '@sinclair/typebox'
import type { Catalog } from '../catalog/models.ts'
import { invalid } from '../errors.ts'
import { toAttos, toNanos } from '../kernel/money.ts'
import { SomeName } from '../kernel/schema-builders.ts'
import { compareTexts } from '../kernel/sorting.ts'
import { type InvoiceLine, openInvoice } from './reconciliation/invoice.ts'
import { summarizeUsage } from './usage.ts'

/** What a bill is compared with. */
export const Reconciliation = Type.Object({
  provider: Type.Optional(SomeName),
  tolerance: Type.Optional(Type.Number({ minimum: 0, maximum: 1_000_000 })),
})
export type Reconciliation = Static<typeof Reconciliation>

type ReconcileWorld = Parameters<typeof summarizeUsage>[0] & { catalog: Catalog }

/** A model on one day, in a bill and on record. Amounts are decimals in USD, exact. */
export interface ReconciledRow {
  day: string
  model: string
  /** `same` within the tolerance; otherwise what differs, or on which side it is missing. */
  state: 'same' | 'differs' | 'not_charged' | 'not_billed'
  billed_usd: string | null
  charged_usd: string | null
  difference_usd: string | null
  billed_tokens: number | null
  charged_tokens: number | null
}

/** What one side knows of a model on one day. */
interface Side {
  attos: bigint
  tokens: number
}

/**
 * Compares a provider's bill with what was charged for its calls, by day (UTC) and model, exactly.
 * Calls with callers' own keys are on bills of theirs. A bill of amounts is compared by amounts, one
 * of usage by tokens. Only the days from its first to its last are looked at. `data` has what
 * differs by more than the tolerance in USD (0), `total` all of it. Throws 400 for a bill that
 * cannot be read, naming its line, and for one whose provider is not known.
 */
export async function reconcileInvoice(
  world: ReconcileWorld,
  pieces: AsyncIterable<Uint8Array>,
  { provider, tolerance = 0 }: Reconciliation,
) {
  const { format, lines } = await openInvoice(pieces)
  const slug = provider ?? format.provider
  if (slug === null) throw invalid('provider: expected it, as the bill does not say', 'provider')
  const found = world.catalog.providers.get(slug)
  if (!found) throw invalid(`provider: expected one that is known, found ${slug}`, 'provider')
  const billed = await sumInvoice(lines, listNames(world.catalog, slug))
  const charged = await readCharges(world, found.name, [...billed.keys()])
  const isOfTokens = format.amount === undefined
  const allowed = isOfTokens ? 0n : toAttos(toNanos(tolerance))
  const rows = [...new Set([...billed.keys(), ...charged.keys()])]
    .sort(compareTexts)
    .map(key => compareSides(key, { isOfTokens, allowed }, billed.get(key), charged.get(key)))
  const differing = rows.filter(({ state }) => state !== 'same')
  return {
    data: differing,
    total: {
      format: format.name,
      provider: slug,
      compared: rows.length,
      differing: differing.length,
      billed_usd: isOfTokens ? null : renderUsd(sumAttos(billed)),
      charged_usd: isOfTokens ? null : renderUsd(sumAttos(charged)),
      difference_usd: isOfTokens ? null : renderUsd(sumAttos(billed) - sumAttos(charged)),
    },
  }
}

const sumAttos = (sides: Map<string, Side>): bigint =>
  [...sides.values()].reduce((sum, { attos }) => sum + attos, 0n)

const buildKey = (day: string, model: string): string => `${day} ${model}`

/** Lists our ids of a provider's models, by its own names for them. */
function listNames({ models }: Catalog, slug: string): Map<string, string> {
  const names = new Map<string, string>()
  for (const { id, endpoints } of models.values())
    for (const endpoint of endpoints)
      if (endpoint.provider.slug === slug) names.set(endpoint.upstreamModel, id)
  return names
}

/** What a provider appends to the name of a model: the day of its version. */
const VERSION = /-(\d{4}-\d\d-\d\d|\d{8})$/

const findOwnName = (names: Map<string, string>, model: string): string =>
  names.get(model) ?? names.get(model.replace(VERSION, '')) ?? model

/** Adds up the lines of a bill by day and model: memory grows with these only. */
async function sumInvoice(
  lines: AsyncIterable<InvoiceLine>,
  names: Map<string, string>,
): Promise<Map<string, Side>> {
  const sums = new Map<string, Side>()
  for await (const { day, model, attos, tokens } of lines) {
    const key = buildKey(day, findOwnName(names, model))
    const sum = sums.get(key) ?? { attos: 0n, tokens: 0 }
    sum.attos += attos ?? 0n
    sum.tokens += tokens ? tokens.input + tokens.output : 0
    sums.set(key, sum)
  }
  if (sums.size === 0) throw invalid('invoice: expected a line after the names of the columns')
  return sums
}

async function readCharges(
  world: ReconcileWorld,
  provider: string,
  keys: string[],
): Promise<Map<string, Side>> {
  const days = keys.map(key => key.slice(0, 10)).sort(compareTexts)
  const until = new Date(Date.parse(days.at(-1) ?? '') + 86_400_000)
  const { data } = await summarizeUsage(world, {
    by: ['day', 'model'],
    provider,
    since: `${days[0]}T00:00:00Z`,
    until: until.toISOString(),
  })
  return new Map(
    data.map(row => [
      buildKey(String(row.day).slice(0, 10), row.model ?? ''),
      { attos: toSignedAttos(row.cost), tokens: row.input_tokens + row.output_tokens },
    ]),
  )
}

// A correction may have made a sum negative.
const toSignedAttos = (usd: number): bigint =>
  usd < 0 ? -toAttos(toNanos(-usd)) : toAttos(toNanos(usd))

function compareSides(
  key: string,
  { isOfTokens, allowed }: { isOfTokens: boolean; allowed: bigint },
  billed: Side | undefined,
  charged: Side | undefined,
): ReconciledRow {
  const difference = (billed?.attos ?? 0n) - (charged?.attos ?? 0n)
  const size = difference < 0n ? -difference : difference
  const isSame = isOfTokens ? (billed?.tokens ?? 0) === (charged?.tokens ?? 0) : size <= allowed
  const missing = billed ? 'not_charged' : 'not_billed'
  return {
    day: key.slice(0, 10),
    model: key.slice(11),
    state: isSame ? 'same' : billed && charged ? 'differs' : missing,
    billed_usd: billed && !isOfTokens ? renderUsd(billed.attos) : null,
    charged_usd: charged && !isOfTokens ? renderUsd(charged.attos) : null,
    difference_usd: isOfTokens ? null : renderUsd(difference),
    billed_tokens: billed && isOfTokens ? billed.tokens : null,
    charged_tokens: charged ? charged.tokens : null,
  }
}

const ONE = 10n ** 18n

/** Renders atto-dollars as a decimal, exactly. */
export function renderUsd(attos: bigint): string {
  const sign = attos < 0n ? '-' : ''
  const size = attos < 0n ? -attos : attos
  const fraction = (size % ONE).toString().padStart(18, '0').replace(/0+$/, '')
  return `${sign}${size / ONE}${fraction === '' ? '' : `.${fraction}`}`
}
