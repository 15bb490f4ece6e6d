import { type GatewayError, invalid } from './errors.ts'

/** A record of a CSV file, with the line that it begins at, which counts from 1. */
export interface CsvRecord {
  line: number
  fields: string[]
}

/** The most characters of one record. */
const LONGEST_RECORD = 1024 * 1024

/**
 * Reads a CSV file record by record (RFC 4180), with commas between fields. Holds one record and one
 * piece of the file. Blank lines are skipped, and count. Throws 400 with the line for a quote that
 * is never closed or stands in the middle of a field, and for a record of more than 1 MiB.
 */
export async function* readCsv(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<CsvRecord> {
  const parser = new CsvParser()
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for await (const piece of pieces) yield* parser.read(decode(decoder, piece, parser.line))
  yield* parser.read(decode(decoder, null, parser.line))
  yield* parser.finish()
}

function decode(decoder: TextDecoder, piece: Uint8Array | null, line: number): string {
  try {
    return piece ? decoder.decode(piece, { stream: true }) : decoder.decode()
  } catch {
    throw describeLine(line, 'expected UTF-8')
  }
}

/** Creates the error about a line of a file. 400. */
export const describeLine = (line: number, problem: string): GatewayError =>
  invalid(`line ${line}: ${problem}`).with({ metadata: { line } })

class CsvParser {
  line = 1
  #start = 1
  #fields: string[] = []
  #field = ''
  #size = 0
  /** Whether the field is within quotes, or was, or has not begun. */
  #state: 'begin' | 'plain' | 'quoted' | 'closed' = 'begin'

  #step(character: string): CsvRecord | null {
    this.#size += 1
    if (this.#size > LONGEST_RECORD) throw describeLine(this.#start, 'expected a shorter record')
    if (this.#state === 'quoted') {
      if (character === '\n') this.line += 1
      if (character === '"') this.#state = 'closed'
      else this.#field += character
      return null
    }
    if (character === '"') this.#readQuote()
    else if (character === ',') this.#endField()
    else if (character === '\n') return this.#endLine()
    else if (character !== '\r') this.#readPlain(character)
    return null
  }

  *read(text: string): Generator<CsvRecord> {
    for (const character of text) {
      const record = this.#step(character)
      if (record) yield record
    }
  }

  *finish(): Generator<CsvRecord> {
    if (this.#state === 'quoted') throw describeLine(this.#start, 'a quote is never closed')
    const record = this.#endRecord()
    if (record) yield record
  }

  /** A second quote stands for one in the text. */
  #readQuote(): void {
    if (this.#state === 'plain') throw describeLine(this.line, 'a quote stands within a field')
    if (this.#state === 'closed') this.#field += '"'
    this.#state = 'quoted'
  }

  #readPlain(character: string): void {
    if (this.#state === 'closed') throw describeLine(this.line, 'expected a comma after a quote')
    this.#state = 'plain'
    this.#field += character
  }

  #endField(): void {
    this.#fields.push(this.#field)
    this.#field = ''
    this.#state = 'begin'
  }

  #endLine(): CsvRecord | null {
    const record = this.#endRecord()
    this.line += 1
    this.#start = this.line
    return record
  }

  #endRecord(): CsvRecord | null {
    const isBlank = this.#fields.length === 0 && this.#field === '' && this.#state === 'begin'
    if (!isBlank) this.#endField()
    const record = isBlank ? null : { line: this.#start, fields: this.#fields }
    this.#fields = []
    this.#size = 0
    return record
  }
}
