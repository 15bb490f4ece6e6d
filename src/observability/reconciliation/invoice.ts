import { type CsvRecord, describeLine, readCsv } from '../../base/csv.ts'
import { invalid } from '../../base/errors.ts'

/** One line of a provider's bill. */
export interface InvoiceLine {
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
export function buildOwnFormat(own: OwnColumns): InvoiceFormat | undefined {
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
export async function openInvoice(
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
