import { type Static, Type } from '@sinclair/typebox'
import { type CsvRecord, describeLine, readCsv } from '../base/csv.ts'
import { invalid } from '../base/errors.ts'
import { toAttos, toNanos } from '../base/money.ts'
import { SomeName } from '../base/schema-builders.ts'
import { compareTexts } from '../base/sorting.ts'
import type { Catalog } from '../resources/models/catalog.ts'
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

/** One line of a provider's bill. */
interface InvoiceLine {
  /** `2026-11-01`, in UTC. */
  day: string
  /** The model as the provider calls it; empty where the line names none. */
  model: string
  /** In atto-dollars (10⁻¹⁸ USD); null in a file of tokens. */
  attos: bigint | null
  /** Null in a file of amounts. */
  tokens: { input: number; output: number } | null
}

/** A form of bill: its columns. Of a list of days, the first column that is there counts. */
interface InvoiceFormat {
  name: string
  /** The slug of whose it is; null for any. */
  provider: string | null
  day: string[]
  /** Absent in a bill of days alone. */
  model?: string
  amount?: string
  currency?: string
  /** Columns that are added up. */
  input?: string[]
  output?: string[]
  /** Columns of `input` and `output` that older exports do not have. */
  optional?: string[]
}

const ANTHROPIC_CACHE = [
  'usage_input_tokens_cache_write',
  'usage_input_tokens_cache_write_5m',
  'usage_input_tokens_cache_write_1h',
  'usage_input_tokens_cache_read',
]

/**
 * The forms that are known, the most particular first. No vendor documents its columns: they are from
 * exports, and parsers of exports, that others have published (`reconciliation.test.ts` has them all).
 */
const INVOICE_FORMATS: InvoiceFormat[] = [
  {
    name: 'OpenAI costs',
    provider: 'openai',
    day: ['start_time_iso', 'start_time'],
    model: 'line_item',
    amount: 'amount_value',
    currency: 'amount_currency',
  },
  {
    name: 'Anthropic costs',
    provider: 'anthropic',
    day: ['usage_date_utc'],
    model: 'model',
    amount: 'cost_usd',
  },
  {
    name: 'Anthropic usage',
    provider: 'anthropic',
    day: ['usage_date_utc'],
    model: 'model_version',
    input: ['usage_input_tokens_no_cache', ...ANTHROPIC_CACHE],
    output: ['usage_output_tokens'],
    optional: ANTHROPIC_CACHE,
  },
  {
    name: 'OpenAI usage',
    provider: 'openai',
    day: ['start_time_iso', 'start_time'],
    model: 'model',
    input: ['input_tokens'],
    output: ['output_tokens'],
  },
  { name: 'simple', provider: null, day: ['date'], model: 'model', amount: 'amount_usd' },
]

/** The columns of a bill in a form of its own. */
interface OwnColumns {
  day_column?: string
  model_column?: string
  amount_column?: string
  input_column?: string
  output_column?: string
}

/**
 * Builds the form of a bill with other columns; undefined where none are named. Throws 400 for
 * columns that do not make a bill: a day, and amounts or both counts of tokens.
 */
function buildOwnFormat(own: OwnColumns): InvoiceFormat | undefined {
  const [day, model, amount, input, output] = [
    own.day_column,
    own.model_column,
    own.amount_column,
    own.input_column,
    own.output_column,
  ].map(name => name?.trim().toLowerCase())
  if ([day, model, amount, input, output].every(name => name === undefined)) return undefined
  if (day === undefined) throw invalid('day_column: expected it beside other columns', 'day_column')
  if ((input === undefined) !== (output === undefined))
    throw invalid('input_column: expected it together with output_column', 'input_column')
  if ((amount === undefined) === (input === undefined))
    throw invalid('amount_column: expected it, or both columns of tokens', 'amount_column')
  const sums = input && output ? { input: [input], output: [output] } : {}
  return {
    ...{ name: 'own columns', provider: null, day: [day] },
    ...(model === undefined ? {} : { model }),
    ...(amount === undefined ? {} : { amount }),
    ...sums,
  }
}

/** A bill that is being read. */
interface Invoice {
  format: InvoiceFormat
  lines: AsyncGenerator<InvoiceLine>
}

/**
 * Opens a bill as CSV, in a form of its own or the one that its columns tell. Throws 400 where no
 * form has its columns. Reading its lines throws 400 with the line for a day, an amount, a currency
 * or a count that is none.
 */
async function openInvoice(
  pieces: AsyncIterable<Uint8Array>,
  own?: InvoiceFormat,
): Promise<Invoice> {
  const records = readCsv(pieces)
  const { value: head, done } = await records.next()
  if (done) throw invalid('invoice: expected a CSV file with a first line of column names')
  const columns = head.fields.map(name => name.trim().toLowerCase())
  const formats = own ? [own] : INVOICE_FORMATS
  const format = formats.find(one => hasColumns(one, columns))
  if (!format) throw invalid(`invoice: expected the columns of ${describeFormats(formats)}`)
  return { format, lines: readInvoice(records, format, columns) }
}

const describeFormats = (formats: InvoiceFormat[]): string =>
  formats
    .map(
      format => `${format.name} (${[format.day.join(' or '), ...listNeeded(format)].join(', ')})`,
    )
    .join('; ')

/** Lists the columns besides the day that a bill of this form must have. */
const listNeeded = ({ optional = [], ...format }: InvoiceFormat): string[] =>
  [format.model, format.amount, format.currency, ...(format.input ?? []), ...(format.output ?? [])]
    .flatMap(name => name ?? [])
    .filter(name => !optional.includes(name))

const hasColumns = (format: InvoiceFormat, columns: string[]): boolean =>
  format.day.some(name => columns.includes(name)) &&
  listNeeded(format).every(name => columns.includes(name))

async function* readInvoice(
  records: AsyncGenerator<CsvRecord>,
  format: InvoiceFormat,
  columns: string[],
): AsyncGenerator<InvoiceLine> {
  for await (const { line, fields } of records) {
    if (fields.length !== columns.length)
      throw describeLine(line, `expected ${columns.length} fields, found ${fields.length}`)
    const read = (name: string) => fields[columns.indexOf(name)]?.trim() ?? ''
    yield readLine(format, columns, line, read)
  }
}

function readLine(
  format: InvoiceFormat,
  columns: string[],
  line: number,
  read: (name: string) => string,
): InvoiceLine {
  const { amount, currency, input, output } = format
  const dayColumn = format.day.find(name => columns.includes(name)) ?? ''
  if (currency && !/^(usd)?$/i.test(read(currency)))
    throw describeLine(line, `${currency}: expected usd, found ${read(currency)}`)
  const sum = (names: string[]) =>
    names.reduce((total, name) => total + readCount(line, name, read(name)), 0)
  const model = format.model === undefined ? '' : readModel(read(format.model))
  // OpenAI has a line for each day without costs: its day, and nothing else.
  const isEmptyDay = amount !== undefined && read(amount) === '' && model === ''
  return {
    day: readDay(line, dayColumn, read(dayColumn)),
    model,
    attos: amount ? (isEmptyDay ? 0n : readAmount(line, amount, read(amount))) : null,
    tokens: input && output ? { input: sum(input), output: sum(output) } : null,
  }
}

// A line item of OpenAI names the model, and after a comma what of it is billed.
const readModel = (text: string): string => (text.split(',', 1)[0] ?? '').trim()

function readDay(line: number, name: string, text: string): string {
  const isSeconds = /^\d{9,10}$/.test(text)
  const time = isSeconds ? Number(text) * 1000 : Date.parse(text.slice(0, 10))
  const isDay = isSeconds || /^\d{4}-\d\d-\d\d([T ].*)?$/.test(text)
  if (!isDay || Number.isNaN(time)) throw describeLine(line, `${name}: expected a day`)
  const day = new Date(time).toISOString().slice(0, 10)
  // The 30th of February is read as a day of March otherwise.
  if (!isSeconds && !text.startsWith(day)) throw describeLine(line, `${name}: expected a day`)
  return day
}

const PLACES = 18

/** The smallest exponent that makes a difference; OpenAI writes nothing as `0E-6176`. */
const LEAST_EXPONENT = -1_000

/** Reads an amount in USD, exactly to an atto-dollar. */
function readAmount(line: number, name: string, text: string): bigint {
  const found = /^(-?)\$?(\d{1,12})(?:\.(\d{0,100}))?(?:[eE]([+-]?\d{1,5}))?$/.exec(text)
  const [, sign, whole = '', fraction = '', exponent = '0'] = found ?? []
  const power = Math.max(Number(exponent), LEAST_EXPONENT)
  if (!found || power > PLACES) throw describeLine(line, `${name}: expected an amount in USD`)
  const shift = PLACES + power - fraction.length
  const digits = BigInt(whole + fraction)
  const attos = shift >= 0 ? digits * 10n ** BigInt(shift) : digits / 10n ** BigInt(-shift)
  return sign === '-' ? -attos : attos
}

function readCount(line: number, name: string, text: string): number {
  if (text === '') return 0
  const count = Number(text)
  if (!/^\d{1,16}(\.0+)?$/.test(text) || !Number.isSafeInteger(count))
    throw describeLine(line, `${name}: expected a count of tokens`)
  return count
}
