import { type TObject, Type } from '@sinclair/typebox'
import { refuseIssue } from '../../base/body.ts'
import { GatewayError, invalid } from '../../base/errors.ts'
import { findSchemaIssue } from '../../base/schema.ts'
import { LINE_FIELDS, type Line, nameLine, parseLine } from '../../resources/files/request-lines.ts'
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

  /** Throws 400 for a body that `read` would refuse, under the name of its place. */
  check(body: object, place: string): void {
    const issue = findSchemaIssue(this.dialect.body, body)
    if (issue) throw refuseIssue(issue, [place, issue.path].filter(Boolean).join('.'))
    checkPlain(body, place)
  }

  /**
   * Reads a line. Throws 400 with its number for one that is no request to the endpoint, or asks
   * for a stream or a dry run.
   */
  async read(line: Line): Promise<BatchRequest> {
    const { custom_id, body } = (await parseLine(line, this.#schema)) as unknown as BatchRequest
    try {
      checkPlain(body)
    } catch (thrown) {
      throw nameLine(GatewayError.from(thrown), line.number)
    }
    return { line: line.number, custom_id, body }
  }
}

function checkPlain(body: DialectBody & { stream?: unknown }, place = 'body'): void {
  const { stream, debug } = body
  const refuse = (name: string, field = name) =>
    invalid(`${place}.${name}: expected none in a batch`, `${place}.${field}`)
  if (stream === true) throw refuse('stream')
  if (debug?.dry_run) throw refuse('debug.dry_run', 'debug')
}
