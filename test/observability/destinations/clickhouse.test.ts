import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { judgeAnswer, passesTest } from '../../../src/observability/destinations/judge.ts'
import type { DeliveryRequest } from '../../../src/observability/destinations/kind.ts'
import { findKind } from '../../../src/observability/destinations/registry.ts'
import { COLUMNS } from '../../../src/observability/destinations/rows.ts'
import type { Trace } from '../../../src/observability/destinations/trace.ts'
import { CLICKHOUSE_PROGRAM, type ClickHouse, startClickHouse } from '../../support/clickhouse.ts'
import { WORLD } from '../../support/destination-samples.ts'
import {
  buildHostileTrace,
  EXTENDED_TRACE,
  FAILED_TRACE,
  HOSTILE_TEXTS,
  PRIVATE_TRACE,
  TRACE,
} from '../../support/trace-samples.ts'

const kind = findKind('clickhouse')
const CONFIG = {
  ...{ database: 'default', host: 'https://db.example.com', username: 'writer' },
  password: 'Paßwort: x',
}
const render = (traces: Trace[], config: object = CONFIG) =>
  kind.render(WORLD, config as never, traces)

describe('a request to ClickHouse', () => {
  test('inserts into the quoted table, and authenticates in UTF-8', () => {
    const { url, headers } = render([TRACE], { ...CONFIG, database: 'a`b', table: 'c\\d' })
    const { searchParams } = new URL(url)
    expect(searchParams.get('query')).toBe(
      `INSERT INTO \`a\\\`b\`.\`c\\\\d\` (${Object.keys(COLUMNS).join(', ')}) FORMAT JSONEachRow`,
    )
    expect(searchParams.get('wait_end_of_query')).toBe('1')
    expect(headers.authorization).toBe(
      `Basic ${Buffer.from('writer:Paßwort: x').toString('base64')}`,
    )
  })

  test('has a row for each trace', () => {
    const rows = String(render([TRACE, FAILED_TRACE, PRIVATE_TRACE]).body)
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    const { INPUT, OUTPUT, METADATA, ATTRIBUTES, MODEL_PARAMETERS, ...plain } = rows[0]
    expect(plain).toEqual({
      TRACE_ID: '5b8aa5a2d2c872e8321cf37308d69df2',
      TIMESTAMP: '2026-11-22T10:00:00.250Z',
      MODEL: 'anthropic/claude-sonnet-4.5',
      PROVIDER_NAME: 'Amazon Bedrock',
      STATUS: 'ok',
      LEVEL: 'DEFAULT',
      FINISH_REASON: 'tool_calls',
      SPAN_TYPE: 'GENERATION',
      USER_ID: 'user-7',
      SESSION_ID: 'session-9',
      API_KEY_NAME: 'production',
      PROMPT_TOKENS: 120,
      COMPLETION_TOKENS: 30,
      TOTAL_TOKENS: 150,
      TOTAL_COST: 0.00081,
      DURATION_MS: 1500,
    })
    expect(JSON.parse(INPUT)).toEqual({ messages: TRACE.input })
    expect(JSON.parse(OUTPUT)).toEqual(TRACE.output)
    expect(JSON.parse(METADATA)).toEqual(TRACE.metadata)
    expect(JSON.parse(MODEL_PARAMETERS)).toEqual(TRACE.facts.parameters)
    expect(JSON.parse(ATTRIBUTES)).toMatchObject({
      'gen_ai.response.id': TRACE.id,
      'gen_ai.usage.total_cost': 0.00081,
    })
    expect(rows[1]).toMatchObject({ STATUS: 'error', LEVEL: 'ERROR', OUTPUT: null, USER_ID: null })
    expect(rows[2]).toMatchObject({ INPUT: null, OUTPUT: null })
  })
})

describe('an answer of ClickHouse', () => {
  // As versions of 2018 and of 2025 say it, also below the status of a success.
  test.each([
    [404, 'Code: 60, e.displayText() = DB::Exception: Table default.x doesn’t exist.', 'refused'],
    [404, 'Code: 60. DB::Exception: Table default.x does not exist. (UNKNOWN_TABLE)', 'refused'],
    [200, 'Code: 27. DB::Exception: Cannot parse input (CANNOT_PARSE_INPUT)', 'refused'],
    [500, 'Code: 16. DB::Exception: No such column INPUT in table', 'refused'],
    [403, 'Code: 516. DB::Exception: writer: Authentication failed', 'refused'],
    [500, 'Code: 241. DB::Exception: Memory limit (total) exceeded', 'retry'],
    [200, 'Code: 252. DB::Exception: Too many parts (300)', 'retry'],
    [500, 'Code: 242. DB::Exception: Table is in readonly mode', 'retry'],
    [200, '', 'delivered'],
  ] as const)('%i %j is %s', (status, text, verdict) => {
    expect(judgeAnswer(kind, { status, text })).toBe(verdict)
  })
})

describe.skipIf(CLICKHOUSE_PROGRAM === null)('a ClickHouse server (clickhouse-server)', () => {
  const config = { ...CONFIG, host: '', table: 'traces' }
  let server: ClickHouse
  const send = async ({ method, url, headers, body }: DeliveryRequest) => {
    const response = await fetch(url, { method, headers, body: Buffer.from(body) })
    return { status: response.status, text: await response.text() }
  }
  const ask = async (sql: string) => {
    const { authorization = '' } = render([TRACE]).headers
    const response = await fetch(`${server.url}/`, {
      ...{ method: 'POST', headers: { authorization }, body: sql },
    })
    const text = await response.text()
    if (!response.ok) throw new Error(text)
    return text.trim()
  }
  const TYPES = {
    ...{ text: 'Nullable(String)', json: 'Nullable(String)', time: 'DateTime' },
    ...{ count: 'UInt64', number: 'Float64' },
  }

  beforeAll(async () => {
    server = await startClickHouse()
    config.host = server.url
    const columns = Object.entries(COLUMNS).map(([name, type]) => `${name} ${TYPES[type]}`)
    await ask(`CREATE TABLE ${config.table} (${columns.join(', ')}) ENGINE = Memory`)
  })

  afterAll(() => server.close())

  test('passes a test that inserts nothing', async () => {
    expect(passesTest(kind, await send(kind.renderTest(WORLD, config as never)))).toBe(true)
    expect(await ask(`SELECT count() FROM ${config.table}`)).toBe('0')
  })

  test('fails a test with another password, and without the table', async () => {
    for (const wrong of [{ password: 'x' }, { table: 'no_such_table' }]) {
      const answer = await send(kind.renderTest(WORLD, { ...config, ...wrong } as never))
      expect(passesTest(kind, answer)).toBe(false)
      expect(judgeAnswer(kind, answer)).toBe('refused')
    }
  })

  test('takes every row as it is', async () => {
    const hostile = HOSTILE_TEXTS.map(buildHostileTrace)
    const traces = [TRACE, PRIVATE_TRACE, EXTENDED_TRACE, FAILED_TRACE, ...hostile]
    expect(judgeAnswer(kind, await send(render(traces, config)))).toBe('delivered')
    expect(await ask(`SELECT count() FROM ${config.table}`)).toBe(String(traces.length))
    const models = await ask(`SELECT MODEL FROM ${config.table} FORMAT JSONCompact`)
    expect(JSON.parse(models).data.flat().toSorted()).toEqual(
      traces.map(({ facts }) => facts.model.toWellFormed()).toSorted(),
    )
    expect(
      await ask(`SELECT toString(min(TIMESTAMP), 'UTC'), sum(TOTAL_TOKENS) FROM ${config.table}`),
    ).toBe(`2026-11-22 10:00:00\t${150 * (traces.length - 1)}`)
  })
})
