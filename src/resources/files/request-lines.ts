import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { parseBody, parseBodyInSteps } from '../../base/body.ts'
import { GatewayError, invalid, tooLarge } from '../../base/errors.ts'
import { LARGEST_BODY, open } from '../../base/schema-builders.ts'
import { runInTurns } from '../../base/turns.ts'

/** A line of a file, with its number, which counts from 1. */
export interface Line {
  number: number
  bytes: Uint8Array
}

const NEWLINE = 0x0a

/**
 * Reads a file line by line, without the white space that lines begin with. Lines of white space
 * alone are skipped, and count. Holds one line and one piece of the file. Throws 413 for a line of
 * more than 32 MiB.
 */
export async function* readLines(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Line> {
  let number = 1
  let begun: Uint8Array[] = []
  let size = 0
  for await (const piece of pieces) {
    let start = 0
    for (;;) {
      // A file of white space alone has millions of lines: nothing is made for one.
      for (; begun.length === 0 && isBlank(piece[start]); start++)
        if (piece[start] === NEWLINE) number += 1
      if (start === piece.length) break
      const end = piece.indexOf(NEWLINE, start)
      const part = piece.subarray(start, end === -1 ? piece.length : end)
      size += part.length
      if (size > LARGEST_BODY) throw nameLine(tooLarge(TOO_LONG), number)
      begun.push(part)
      if (end === -1) break
      yield { number, bytes: begun.length === 1 ? part : Buffer.concat(begun) }
      number += 1
      begun = []
      size = 0
      start = end + 1
    }
  }
  if (begun.length > 0) yield { number, bytes: Buffer.concat(begun) }
}

const TOO_LONG = `expected at most ${LARGEST_BODY} bytes`

const isBlank = (byte: number | undefined): boolean =>
  byte === 0x20 || byte === NEWLINE || byte === 0x0d || byte === 0x09

/** What a batch may ask for: the paths of calls, as clients of OpenAI write them. */
export const BATCH_ENDPOINTS = [
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/embeddings',
] as const

/** The fields of a line beside its body, as OpenAI’s files of requests have them. */
export const LINE_FIELDS = {
  custom_id: Type.String({ minLength: 1, maxLength: 512 }),
  method: Type.Literal('POST'),
}

const RequestLine = Type.Object({
  ...LINE_FIELDS,
  url: Type.Union(BATCH_ENDPOINTS.map(path => Type.Literal(path))),
  body: Type.Object({}, open),
})

/**
 * Checks that a file is one of requests, line by line. Throws 400 naming the first line that is
 * none, has another endpoint than the first, or repeats a `custom_id`.
 */
export async function checkRequestFile(pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const seen = new SeenIds()
  let url: string | undefined
  for await (const line of readLines(pieces)) {
    const request = await parseLine(line, RequestLine)
    url ??= request.url
    if (request.url !== url)
      throw nameLine(invalid(`url: expected ${url} as in the first`, 'url'), line.number)
    seen.add(request.custom_id, line.number)
  }
}

/** In bytes: a longer line is read in steps, between which others have their turn. */
const READ_AT_ONCE = 256 * 1024

/**
 * Reads a line that has to match the schema. Throws what reading a body throws, with the number of
 * the line.
 */
export async function parseLine<Schema extends TSchema>(
  { number, bytes }: Line,
  schema: Schema,
): Promise<Static<Schema>> {
  try {
    if (bytes.length <= READ_AT_ONCE) return parseBody(schema, bytes)
    // The steps give the memory of their bytes back, and a line may be read again.
    return await runInTurns(parseBodyInSteps(schema, bytes.slice()))
  } catch (thrown) {
    throw nameLine(GatewayError.from(thrown), number)
  }
}

/** Returns an error as one about a line of a file. */
export const nameLine = (error: GatewayError, line: number): GatewayError =>
  error.with({
    message: `line ${line}: ${error.message}`,
    metadata: { ...error.metadata, line },
  })

/** Notices ids that repeat, in a few bytes for each. */
export class SeenIds {
  readonly #hashes = new Set<bigint | number>()

  /** Takes the id of a line. Throws 400 for one that has come before. */
  add(custom_id: string, line: number): void {
    const hash = Bun.hash(custom_id)
    if (this.#hashes.has(hash))
      throw nameLine(invalid('custom_id: expected one that no other line has', 'custom_id'), line)
    this.#hashes.add(hash)
  }

  get size(): number {
    return this.#hashes.size
  }
}
