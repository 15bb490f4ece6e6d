import { invalid } from '../../errors.ts'
import { type CsvRecord, describeLine, readCsv } from '../../kernel/csv.ts'

/** One line of a provider's bill. */
export interface InvoiceLine {
  /** `2026-11-01`, in UTC. */
  day: string
  /** The model as the provider calls it. */
  model: string
  /** In atto-dollars (10⁻¹⁸ USD); null in a file of tokens. */
  attos: bigint | null
  /** Null in a file of amounts. */
  tokens: { input: number; output: number } | null
}

/** A form of bill: its columns. Of a list, the first column that is there counts. */
interface InvoiceFormat {
  name: string
  /** The slug of whose it is; null for any. */
  provider: string | null
  day: string[]
  model: string
  amount?: string
  currency?: string
  /** Columns that are added up. */
  input?: string[]
  output?: string[]
}

const ANTHROPIC_INPUT = [
  'usage_input_tokens_no_cache',
  'usage_input_tokens_cache_write_5m',
  'usage_input_tokens_cache_write_1h',
  'usage_input_tokens_cache_read',
]

/** The forms that are known, the most particular first. */
export const INVOICE_FORMATS: InvoiceFormat[] = [
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
    input: ANTHROPIC_INPUT,
    output: ['usage_output_tokens'],
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

/** A bill that is being read. */
export interface Invoice {
  format: InvoiceFormat
  lines: AsyncGenerator<InvoiceLine>
}

/**
 * Opens a bill as CSV. Throws 400 where no form has its columns. Reading its lines throws 400 with
 * the line for a day, an amount, a currency or a count that is none.
 */
export async function openInvoice(pieces: AsyncIterable<Uint8Array>): Promise<Invoice> {
  const records = readCsv(pieces)
  const { value: head, done } = await records.next()
  if (done) throw invalid('invoice: expected a CSV file with a first line of column names')
  const columns = head.fields.map(name => name.trim().toLowerCase())
  const format = INVOICE_FORMATS.find(one => listColumns(one, columns) !== null)
  if (!format) throw invalid(`invoice: expected the columns of ${describeFormats()}`)
  return { format, lines: readInvoice(records, format, columns) }
}

const describeFormats = (): string =>
  INVOICE_FORMATS.map(
    ({ name, day, model, amount, input = [], output = [] }) =>
      `${name} (${[day.join(' or '), model, ...(amount ? [amount] : []), ...input, ...output].join(', ')})`,
  ).join('; ')

/** Returns the columns of a form that are there; null if it is another one. */
function listColumns(format: InvoiceFormat, columns: string[]): string[] | null {
  const day = format.day.find(name => columns.includes(name))
  const { model, amount, currency, input = [], output = [] } = format
  const needed = [model, ...[amount, currency].flatMap(name => name ?? []), ...input, ...output]
  return day !== undefined && needed.every(name => columns.includes(name)) ? [day, ...needed] : null
}

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
  return {
    day: readDay(line, dayColumn, read(dayColumn)),
    model: readModel(read(format.model)),
    attos: amount ? readAmount(line, amount, read(amount)) : null,
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

/** Reads an amount in USD exactly. */
function readAmount(line: number, name: string, text: string): bigint {
  const found = /^(-?)\$?(\d{1,12})(?:\.(\d*))?(?:[eE]([+-]?\d{1,2}))?$/.exec(text)
  if (!found) throw describeLine(line, `${name}: expected an amount in USD`)
  const [, sign, whole = '', fraction = '', exponent = '0'] = found
  const shift = PLACES + Number(exponent) - fraction.length
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
