import { Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import {
  BodyName,
  buildBaseUrl,
  buildBasic,
  buildHeaders,
  buildHeadersSchema,
  fillConfig,
} from '../config.ts'
import { judgePage } from '../judge.ts'
import type { DeliveryAnswer, DeliveryRequest, DestinationKind, Verdict } from '../kind.ts'
import { buildRow, COLUMNS } from '../rows.ts'
import { writeJson } from '../text.ts'

const TABLE = 'OPENROUTER_TRACES'

const CONFIG = Type.Object(
  {
    database: BodyName,
    headers: buildHeadersSchema('authorization', 'x-clickhouse-key', 'x-clickhouse-user'),
    host: buildBaseUrl(),
    password: Type.String({ minLength: 1, maxLength: 4_096 }),
    table: Type.Optional({ ...BodyName, default: TABLE }),
    // Basic authentication ends the name at a colon.
    username: Type.String({
      pattern: '^[^:\\u0000-\\u001f\\u007f]+$',
      title: 'without colons and control characters',
      minLength: 1,
      maxLength: 255,
    }),
  },
  closed,
)

/**
 * ClickHouse: rows by its HTTP interface. The server answers when the whole insert is done, so that
 * an error has a status of its own. A test inserts no rows into the same columns.
 */
export const clickhouse: DestinationKind<typeof CONFIG> = {
  type: 'clickhouse',
  config: CONFIG,
  secrets: ['password'],
  address: ['host'],
  batchSize: 200,
  render: ({ serviceName }, config, traces) =>
    renderInsert(
      config,
      traces.map(trace => `${writeJson(buildRow(serviceName, trace))}\n`).join(''),
    ),
  renderTest: (_, config) => renderInsert(config, ''),
  judge: judgeException,
}

function renderInsert(
  config: Parameters<(typeof clickhouse)['render']>[1],
  body: string,
): DeliveryRequest {
  const { host, database, table = TABLE, username, password, headers } = fillConfig(CONFIG, config)
  const columns = Object.keys(COLUMNS).join(', ')
  const query = new URLSearchParams({
    query: `INSERT INTO ${quote(database)}.${quote(table)} (${columns}) FORMAT JSONEachRow`,
    date_time_input_format: 'best_effort',
    wait_end_of_query: '1',
  })
  return {
    method: 'POST',
    url: `${host.replace(/\/+$/, '')}/?${query}`,
    headers: buildHeaders(headers, {
      authorization: buildBasic(username, password),
      'content-type': 'application/x-ndjson',
    }),
    body,
  }
}

const quote = (name: string): string => `\`${name.replace(/[\\`]/g, '\\$&')}\``

/** What an exception says, also below a status of success. */
const EXCEPTION = /\bCode: (\d+)[.,] .*?(?:DB::|e\.displayText)/s

/** Names, forms and rights that are wrong: the same rows would fail again. */
const LASTING = [
  ...[6, 8, 10, 16, 26, 27, 33, 36, 38, 41, 44, 47, 53, 60, 62, 69, 70, 72, 80, 81, 117],
  ...[164, 192, 193, 194, 349, 497, 516],
]

function judgeException(answer: DeliveryAnswer): Verdict | undefined {
  const code = EXCEPTION.exec(answer.text)?.[1]
  if (code === undefined) return judgePage(answer)
  return LASTING.includes(Number(code)) ? 'refused' : 'retry'
}
