import { Type } from '@sinclair/typebox'
import { parseObject } from '../../../base/json.ts'
import { closed } from '../../../base/schema-builders.ts'
import { BodyName, buildHeaders, buildHeadersSchema, Credential, fillConfig } from '../config.ts'
import { judgePage } from '../judge.ts'
import type { DeliveryAnswer, DeliveryRequest, DestinationKind, Verdict } from '../kind.ts'
import { buildRow, COLUMNS, type Column, type Row } from '../rows.ts'
import { writeJson } from '../text.ts'

const DATABASE = 'SNOWFLAKE_LEARNING_DB'
const SCHEMA = 'PUBLIC'
const TABLE = 'OPENROUTER_TRACES'
const WAREHOUSE = 'COMPUTE_WH'

const CONFIG = Type.Object(
  {
    account: Type.String({
      minLength: 1,
      maxLength: 255,
      pattern: '^[a-zA-Z0-9_]+(?:[.-][a-zA-Z0-9_]+)*$',
      title: 'an account identifier: letters, digits and _ between . and -',
    }),
    database: Type.Optional({ ...BodyName, default: DATABASE }),
    headers: buildHeadersSchema('accept', 'authorization'),
    schema: Type.Optional({ ...BodyName, default: SCHEMA }),
    table: Type.Optional({ ...BodyName, default: TABLE }),
    token: Credential,
    warehouse: Type.Optional({ ...BodyName, default: WAREHOUSE }),
  },
  closed,
)

/**
 * Snowflake: inserts by its SQL API, every value a binding. The token is a programmatic access
 * token, unless a custom header `x-snowflake-authorization-token-type` names another type. A test
 * is the same statement without rows: it needs the token, the warehouse and the table.
 */
export const snowflake: DestinationKind<typeof CONFIG> = {
  type: 'snowflake',
  config: CONFIG,
  secrets: ['token'],
  address: ['account'],
  batchSize: 20,
  render: (world, config, traces) =>
    renderStatement(
      config,
      world.createId(),
      traces.map(trace => buildRow(world.serviceName, trace)),
    ),
  renderTest: (world, config) => renderStatement(config, world.createId(), []),
  judge: judgeStatement,
}

/** Seconds that a statement may take before Snowflake cancels it. */
const TIMEOUT = 60

function renderStatement(
  config: Parameters<(typeof snowflake)['render']>[1],
  requestId: string,
  rows: Row[],
): DeliveryRequest {
  const { account, token, warehouse = WAREHOUSE, headers } = config
  return {
    method: 'POST',
    url: `https://${findHost(account)}/api/v2/statements?requestId=${requestId}`,
    headers: {
      'x-snowflake-authorization-token-type': 'PROGRAMMATIC_ACCESS_TOKEN',
      ...buildHeaders(headers, {
        accept: 'application/json',
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
      }),
    },
    body: writeJson({
      statement: writeInsert(config, rows.length),
      timeout: TIMEOUT,
      warehouse: isPlain(warehouse) ? warehouse.toUpperCase() : warehouse,
      bindings: buildBindings(rows),
    }),
  }
}

// A host name has no underscore, and Snowflake answers to a hyphen in its place.
const findHost = (account: string): string =>
  `${account.replaceAll('_', '-').toLowerCase()}.snowflakecomputing.com`

const NAMES = Object.keys(COLUMNS) as Column[]

/** Writes an insert of so many rows. Semi-structured columns are parsed from their text. */
function writeInsert(config: Parameters<(typeof snowflake)['render']>[1], rows: number): string {
  const { database = DATABASE, schema = SCHEMA, table = TABLE } = fillConfig(CONFIG, config)
  const target = [database, schema, table].map(quote).join('.')
  const values = NAMES.map((name, i) => PARSERS[COLUMNS[name]](`column${i + 1}`)).join(', ')
  const into = `INSERT INTO ${target} (${NAMES.join(', ')}) SELECT ${values} FROM VALUES`
  if (rows === 0) return `${into} (${NAMES.map(() => 'NULL').join(', ')}) WHERE 1 = 0`
  return `${into} ${Array(rows)
    .fill(`(${NAMES.map(() => '?').join(', ')})`)
    .join(', ')}`
}

const PARSERS = {
  text: (column: string) => column,
  count: (column: string) => column,
  number: (column: string) => column,
  time: (column: string) => `TO_TIMESTAMP_TZ(${column})`,
  json: (column: string) => `PARSE_JSON(${column})`,
}

const TYPES = { text: 'TEXT', time: 'TEXT', json: 'TEXT', count: 'FIXED', number: 'REAL' }

/** Numbers the values of all rows from 1, as text with Snowflake's type. */
const buildBindings = (rows: Row[]): Record<string, { type: string; value: string | null }> =>
  Object.fromEntries(
    rows
      .flatMap(row => NAMES.map(name => ({ type: TYPES[COLUMNS[name]], value: row[name] })))
      .map(({ type, value }, i) => [
        String(i + 1),
        { type, value: value === null ? null : String(value) },
      ]),
  )

/** A plain name stands as it is, so that its case does not count, as in a worksheet. */
const quote = (name: string): string => (isPlain(name) ? name : `"${name.replaceAll('"', '""')}"`)

const isPlain = (name: string): boolean => /^[A-Za-z_][\w$]*$/.test(name)

/** The codes of a statement that had success, and of one that still runs. */
const SUCCESS = ['090001', '333333', '333334']

// An accepted statement that still runs is Snowflake's own: to send it again would double its rows.
function judgeStatement(answer: DeliveryAnswer): Verdict | undefined {
  if (answer.status !== 200 && answer.status !== 202) return undefined
  const code = parseObject(answer.text)?.code
  if (typeof code === 'string' && !SUCCESS.includes(code)) return 'refused'
  return judgePage(answer)
}
