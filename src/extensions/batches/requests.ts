import { type TObject, Type } from '@sinclair/typebox'
import { parseBody } from '../../base/body.ts'
import { invalid } from '../../base/errors.ts'
import { LINE_FIELDS, type Line, parseLine } from '../../resources/files/request-lines.ts'
import type { Dialect, DialectBody } from '../../translation/dialects/dialect.ts'
import { dialects } from '../../translation/dialects/registry.ts'

/** One request of a batch. */
export interface BatchRequest {
  line: number
  custom_id: string
  body: DialectBody
}

/** Reads the lines of a batch: its dialect, and what each line must match. */
export class RequestReader {
  readonly dialect: Dialect
  readonly #schema: TObject

  /** Creates the reader of an endpoint's lines. */
  constructor(endpoint: string) {
    const dialect = dialects.find(({ path }) => `/v1${path}` === endpoint)
    if (!dialect) throw invalid(`endpoint: ${endpoint} is none of a batch`, 'endpoint')
    this.dialect = dialect
    this.#schema = Type.Object({ ...LINE_FIELDS, url: Type.Literal(endpoint), body: dialect.body })
  }

  /**
   * Reads a line. Throws 400 with its number for one that is no request to the endpoint, or asks
   * for a stream or a dry run.
   */
  read(line: Line): BatchRequest {
    return parseLine(line, bytes => {
      const { custom_id, body } = parseBody(this.#schema, bytes) as unknown as BatchRequest
      checkPlain(body)
      return { line: line.number, custom_id, body }
    })
  }
}

function checkPlain({ stream, debug }: DialectBody & { stream?: unknown }): void {
  if (stream === true) throw invalid('body.stream: expected none in a batch', 'body.stream')
  if (debug?.dry_run) throw invalid('body.debug.dry_run: expected none in a batch', 'body.debug')
}
