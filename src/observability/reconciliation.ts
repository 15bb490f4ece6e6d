import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../base/errors.ts'
import { toAttos, toNanos } from '../base/money.ts'
import { SomeName } from '../base/schema-builders.ts'
import { compareTexts } from '../base/sorting.ts'
import type { Catalog } from '../resources/models/catalog.ts'
import { buildOwnFormat, type InvoiceLine, openInvoice } from './reconciliation/invoice.ts'
import { summarizeUsage } from './usage.ts'

const Column = Type.Optional(SomeName)

/** What a bill is compared with, and its columns where it has a form of its own. */
export const Reconciliation = Type.Object({
  provider: Type.Optional(SomeName),
  tolerance: Type.Optional(Type.Number({ minimum: 0, maximum: 1_000_000 })),
  day_column: Column,
  model_column: Column,
  amount_column: Column,
  input_column: Column,
  output_column: Column,
})

export type Reconciliation = Static<typeof Reconciliation>

type ReconcileWorld = Parameters<typeof summarizeUsage>[0] & { catalog: Catalog }

/** A model on one day, in a bill and on record. Amounts are decimals in USD, exact. */
export interface ReconciledRow {
  day: string
  /** Null in a bill that names no models: it is compared by day. */
  model: string | null
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
 * Compares a provider's bill with what was charged for its calls, by day (UTC) and model, exactly; by
 * day where it names no models. Calls with callers' own keys are on bills of theirs. A bill of
 * amounts is compared by amounts, one of usage by tokens. Only the days from its first to its last
 * are looked at. `data` has what differs by more than the tolerance in USD (0), `total` all of it.
 * Throws 400 for a bill that cannot be read, naming its line, and for one whose provider is not
 * known.
 */
export async function reconcileInvoice(
  world: ReconcileWorld,
  pieces: AsyncIterable<Uint8Array>,
  { provider, tolerance = 0, ...columns }: Reconciliation,
) {
  const { format, lines } = await openInvoice(pieces, buildOwnFormat(columns))
  const slug = provider ?? format.provider
  if (slug === null) throw invalid('provider: expected it, as the bill does not say', 'provider')
  const found = world.catalog.providers.get(slug)
  if (!found) throw invalid(`provider: expected one that is known, found ${slug}`, 'provider')
  const { sums: billed, days } = await sumInvoice(lines, listNames(world.catalog, slug))
  const byModel = [...billed.keys()].some(key => key.length > DAY_LENGTH)
  const charged = await readCharges(world, { provider: found.name, days, byModel })
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

const DAY_LENGTH = '2026-11-01'.length
const buildKey = (day: string, model: string): string => `${day}${model}`

/**
 * Lists our ids of a provider's models by its own names for them, and by those names as bills write
 * them: Anthropic's have `Claude Sonnet 4.5` for `claude-sonnet-4-5-20250929`.
 */
function listNames({ models }: Catalog, slug: string): Map<string, string> {
  const names = new Map<string, string>()
  const plain = new Map<string, string>()
  for (const { id, endpoints } of models.values())
    for (const { provider, upstreamModel } of endpoints) {
      if (provider.slug !== slug) continue
      names.set(upstreamModel, id)
      // A name without the day of a version stands for itself first.
      const isUndated = simplify(upstreamModel).length === upstreamModel.length
      if (isUndated || !plain.has(simplify(upstreamModel))) plain.set(simplify(upstreamModel), id)
    }
  for (const [name, id] of plain) if (!names.has(name)) names.set(name, id)
  return names
}

/** What a provider appends to the name of a model: the day of its version. */
const VERSION = /-(\d{4}-\d\d-\d\d|\d{8})$/

const simplify = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9/]+/g, '-')
    .replace(VERSION, '')

const findOwnName = (names: Map<string, string>, model: string): string =>
  names.get(model) ?? names.get(model.replace(VERSION, '')) ?? names.get(simplify(model)) ?? model

/** Adds up the lines of a bill by day and model: memory grows with these only. */
async function sumInvoice(
  lines: AsyncIterable<InvoiceLine>,
  names: Map<string, string>,
): Promise<{ sums: Map<string, Side>; days: { first: string; last: string } }> {
  const sums = new Map<string, Side>()
  const days = { first: '', last: '' }
  for await (const { day, model, attos, tokens } of lines) {
    if (days.first === '' || day < days.first) days.first = day
    if (day > days.last) days.last = day
    const count = tokens ? tokens.input + tokens.output : 0
    if (model === '' && !attos && count === 0) continue
    const key = buildKey(day, model === '' ? '' : findOwnName(names, model))
    const sum = sums.get(key) ?? { attos: 0n, tokens: 0 }
    sum.attos += attos ?? 0n
    sum.tokens += count
    sums.set(key, sum)
  }
  if (days.first === '') throw invalid('invoice: expected a line after the names of the columns')
  return { sums, days }
}

async function readCharges(
  world: ReconcileWorld,
  {
    provider,
    days,
    byModel,
  }: { provider: string; days: { first: string; last: string }; byModel: boolean },
): Promise<Map<string, Side>> {
  const { data } = await summarizeUsage(world, {
    by: byModel ? ['day', 'model'] : ['day'],
    provider,
    since: `${days.first}T00:00:00Z`,
    until: new Date(Date.parse(days.last) + 86_400_000).toISOString(),
  })
  return new Map(
    data.map(row => [
      buildKey(String(row.day).slice(0, DAY_LENGTH), byModel ? (row.model ?? '') : ''),
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
    day: key.slice(0, DAY_LENGTH),
    model: key.slice(DAY_LENGTH) || null,
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
