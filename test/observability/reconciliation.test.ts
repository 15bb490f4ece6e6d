import { describe, expect, test } from 'bun:test'
import { readCsv } from '../../src/base/csv.ts'
import { reconcileInvoice, renderUsd } from '../../src/observability/reconciliation.ts'
import { buildPaidModel } from '../support/batches.ts'
import { testGateway } from '../support/gateway.ts'
import { buildGeneration, buildStepCharge } from '../support/generation.ts'

async function* split(text: string, size = 7) {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const readAll = async (text: string, size?: number) => {
  const records = await Array.fromAsync(readCsv(split(text, size)))
  return records.map(({ line, fields }) => [line, ...fields])
}

test.each([1, 2, 1_000])('CSV is read record by record, from pieces of %d bytes', async size => {
  const text = '\u{feff}a,b\r\n"x, ""y""\nz",\u{1f600}\n\n,\nlast,"1"'
  expect(await readAll(text, size)).toEqual([
    [1, 'a', 'b'],
    [2, 'x, "y"\nz', '\u{1f600}'],
    [5, '', ''],
    [6, 'last', '1'],
  ])
})

test.each([
  ['a\n"b', 'line 2: a quote is never closed'],
  ['a\nb"c', 'line 2: a quote stands within a field'],
  ['"a"b', 'line 1: expected a comma after a quote'],
  [`a\n${'x'.repeat(1_100_000)}`, 'line 2: expected a shorter record'],
])('CSV that is none is refused by its line (%#)', async (text, message) => {
  await expect(readAll(text, 65_536)).rejects.toThrow(message)
})

test.each<[bigint, string]>([
  [0n, '0'],
  [-1n, '-0.000000000000000001'],
  [1_500_000_000_000_000_000n, '1.5'],
])('%d atto-dollars are %s USD', (attos, text) => expect(renderUsd(attos)).toBe(text))

/** Opens a gateway whose calls of two days cost 0.25, 0.5 and 1 USD. */
async function open(upstream = 'up', provider = 'local') {
  const { providers, models } = buildPaidModel('http://127.0.0.1:1')
  const endpoints = models[0]?.endpoints.map(one => ({ ...one, model: upstream, provider }))
  const gateway = await testGateway({
    config: {
      providers: { [provider]: { ...providers.local, name: 'Local' } },
      models: [{ ...models[0], endpoints }],
    },
  })
  const record = (id: string, day: string, usd: number, more: object = {}) => {
    const nanos = BigInt(usd * 1e9)
    const settled_at = `${day}T10:00:00.000Z`
    const costs = { total_cost: nanos, upstream_inference_cost: nanos, settled_at, ...more }
    const day_number = Date.parse(day) / 86_400_000
    return {
      generation: buildGeneration({ id, created_at: settled_at, ...costs }),
      charge: buildStepCharge({ id, nanos, settled_at, day: day_number }),
    }
  }
  await gateway.store.generations.record([
    record('gen-1', '2026-11-01', 0.25),
    record('gen-2', '2026-11-01', 0.5),
    record('gen-3', '2026-11-02', 1),
    record('gen-4', '2026-11-09', 8),
  ])
  const reconcile = (text: string, input: object = { provider: 'local' }) =>
    reconcileInvoice(gateway, split(text, 64), input)
  return { gateway, reconcile }
}

test('a bill that is what was charged has no differences', async () => {
  const { gateway, reconcile } = await open()
  const bill = 'date,model,amount_usd\n2026-11-01,up,0.5\n2026-11-01,up-2026-01-01,0.25\n'
  expect(await reconcile(`${bill}2026-11-02,acme/small,1.000\n`)).toEqual({
    data: [],
    total: {
      format: 'simple',
      provider: 'local',
      compared: 2,
      differing: 0,
      billed_usd: '1.75',
      charged_usd: '1.75',
      difference_usd: '0',
    },
  })
  await gateway.close()
})

test('what differs is told by day and model, exactly', async () => {
  const { gateway, reconcile } = await open()
  const bill =
    'model,date,amount_usd,note\nup,2026-11-01,0.750000000000000001,"a, b"\nother,2026-11-03,2e-9,\n'
  const { data, total } = await reconcile(bill)
  expect(data).toEqual([
    {
      day: '2026-11-01',
      model: 'acme/small',
      state: 'differs',
      billed_usd: '0.750000000000000001',
      charged_usd: '0.75',
      difference_usd: '0.000000000000000001',
      billed_tokens: null,
      charged_tokens: 30,
    },
    expect.objectContaining({ day: '2026-11-02', state: 'not_billed', difference_usd: '-1' }),
    expect.objectContaining({ model: 'other', state: 'not_charged', billed_usd: '0.000000002' }),
  ])
  expect(total).toMatchObject({ differing: 3, difference_usd: '-0.999999997999999999' })
  const tolerant = await reconcile(bill, { provider: 'local', tolerance: 0.000000001 })
  expect(tolerant.data.map(({ state }) => state)).toEqual(['not_billed', 'not_charged'])
  await gateway.close()
})

// The columns of the exports, in their order, as published exports and parsers of them have them:
// xavierjflanagan/Guardian, aiecon, axigatelabs/axigate-finops.
const OPENAI_COSTS = {
  '2025':
    'start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,line_item,' +
    'project_id,organization_id,organization_name',
  '2026':
    'start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,quantity,' +
    'quantity_unit,line_item,user_id,api_key_id,project_id,organization_id,project_name,' +
    'organization_name,user_email,api_source',
}
const OPENAI_USAGE =
  'start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,user_id,' +
  'api_key_id,model,batch,service_tier,input_tokens,output_tokens,input_cached_tokens,' +
  'input_uncached_tokens,input_text_tokens,output_text_tokens,input_cached_text_tokens,' +
  'input_audio_tokens,input_cached_audio_tokens,output_audio_tokens,input_image_tokens,' +
  'input_cached_image_tokens,output_image_tokens'
const ANTHROPIC_COSTS = {
  '2024': 'usage_date_utc,model,workspace,api_key,usage_type,token_type,cost_usd',
  '2025':
    'usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,cost_type',
  '2026':
    'usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,' +
    'list_price_usd,cost_type,inference_geo,speed,api_key_id,api_key_status',
}
const ANTHROPIC_USAGE = {
  'with one column of written caches':
    'usage_date_utc,model_version,api_key,workspace,usage_type,usage_input_tokens_no_cache,' +
    'usage_input_tokens_cache_write,usage_input_tokens_cache_read,usage_output_tokens,' +
    'web_search_count',
  '2026':
    'usage_date_utc,model_version,api_key,workspace,usage_type,context_window,' +
    'usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,' +
    'usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,' +
    'web_search_count,inference_geo,speed',
}

const NOON = { start_time: '1793491200', end_time: '1793577600' }
const ISO = {
  start_time_iso: '2026-11-01T00:00:00+00:00',
  end_time_iso: '2026-11-02T00:00:00+00:00',
}

/** Writes a bill with these columns: what a line does not name is empty. */
const write = (columns: string, ...lines: Record<string, string>[]): string =>
  [
    columns,
    ...lines.map(line =>
      columns
        .split(',')
        .map(name => line[name] ?? '')
        .map(text => (text.includes(',') ? `"${text}"` : text))
        .join(','),
    ),
  ].join('\n')

describe('an export of OpenAI', () => {
  test.each(Object.entries(OPENAI_COSTS))('of costs, of %s', async (_, columns) => {
    const { gateway, reconcile } = await open('up', 'openai')
    const cost = { ...NOON, ...ISO, amount_currency: 'usd' }
    const bill = write(
      columns,
      { ...cost, amount_value: '0.5000000000000000000000000000', line_item: 'up, input' },
      { ...cost, amount_value: '0.25', line_item: 'up-2026-01-01, output' },
      { ...cost, amount_value: '0E-6176', line_item: 'up, cached input' },
    )
    expect(await reconcile(bill, {})).toMatchObject({
      data: [],
      total: { format: 'OpenAI costs', compared: 1, billed_usd: '0.75' },
    })
    await gateway.close()
  })

  test('of costs that names no models is compared by day, days without costs too', async () => {
    const { gateway, reconcile } = await open('up', 'openai')
    const next = { start_time: '1793577600', start_time_iso: '2026-11-02T00:00:00+00:00' }
    const cost = { ...NOON, ...ISO, amount_value: '0.75', amount_currency: 'usd' }
    const { data, total } = await reconcile(write(OPENAI_COSTS[2025], cost, next), {})
    expect(total).toMatchObject({ compared: 2, billed_usd: '0.75', charged_usd: '1.75' })
    expect(data).toEqual([
      expect.objectContaining({ day: '2026-11-02', model: null, state: 'not_billed' }),
    ])
    await gateway.close()
  })

  test('of usage is compared by tokens', async () => {
    const { gateway, reconcile } = await open('up', 'openai')
    const used = { ...NOON, ...ISO, model: 'up-2026-01-01', num_model_requests: '2.0' }
    const counts = { input_tokens: '20.0', output_tokens: '10.0', input_cached_tokens: '5.0' }
    const bill = write(OPENAI_USAGE, { ...used, ...counts }, { ...NOON, ...ISO })
    expect(await reconcile(bill, {})).toMatchObject({ data: [], total: { format: 'OpenAI usage' } })
    await gateway.close()
  })
})

describe('an export of Anthropic', () => {
  test.each(Object.entries(ANTHROPIC_COSTS))(
    'of costs, of %s, has names for people',
    async (_, columns) => {
      const { gateway, reconcile } = await open('claude-up-4-5-20260101', 'anthropic')
      const cost = { usage_date_utc: '2026-11-01', model: 'Claude Up 4.5', usage_type: 'message' }
      const bill = write(
        columns,
        { ...cost, context_window: '≤ 200k', token_type: 'input_no_cache', cost_usd: '0.50' },
        { ...cost, context_window: '≤ 200k', token_type: 'output', cost_usd: '0.25' },
      )
      expect(await reconcile(bill, {})).toMatchObject({
        data: [],
        total: { format: 'Anthropic costs', compared: 1 },
      })
      await gateway.close()
    },
  )

  test.each(Object.entries(ANTHROPIC_USAGE))('of usage, %s', async (_, columns) => {
    const { gateway, reconcile } = await open('claude-up-4-5-20260101', 'anthropic')
    const bill = write(columns, {
      ...{ usage_date_utc: '2026-11-01', model_version: 'claude-up-4-5-20260101' },
      ...{ usage_input_tokens_no_cache: '10', usage_input_tokens_cache_read: '6' },
      ...{ usage_input_tokens_cache_write_1h: '4', usage_input_tokens_cache_write: '4' },
      usage_output_tokens: '11',
    })
    const { data, total } = await reconcile(bill, {})
    expect(total.format).toBe('Anthropic usage')
    expect(data).toMatchObject([{ billed_tokens: 31, charged_tokens: 30 }])
    await gateway.close()
  })
})

describe('a bill in another form', () => {
  const bill = 'Posted On,Product,Net Cost,note\n2026-11-01T09:30:00Z,up,$0.75,x\n'

  test('is read by the columns that are named', async () => {
    const { gateway, reconcile } = await open()
    const columns = { day_column: 'posted on', model_column: 'Product', amount_column: 'Net Cost' }
    expect(await reconcile(bill, { provider: 'local', ...columns })).toMatchObject({
      data: [],
      total: { format: 'own columns', compared: 1, billed_usd: '0.75' },
    })
    const { model_column, ...byDay } = columns
    expect(await reconcile(bill, { provider: 'local', ...byDay })).toMatchObject({ data: [] })
    const usage = 'd,m,i,o\n2026-11-01,up,20,11\n'
    const tokens = { day_column: 'd', model_column: 'm', input_column: 'i', output_column: 'o' }
    expect((await reconcile(usage, { provider: 'local', ...tokens })).data).toMatchObject([
      { billed_tokens: 31, charged_tokens: 30 },
    ])
    await gateway.close()
  })

  test.each<[string, object, string]>([
    ['no day', { amount_column: 'Net Cost' }, 'day_column: expected it'],
    ['nothing to compare', { day_column: 'Posted On' }, 'amount_column: expected it'],
    ['half of the tokens', { day_column: 'd', input_column: 'i' }, 'input_column: expected it'],
    [
      'amounts and tokens',
      { day_column: 'd', amount_column: 'a', input_column: 'i', output_column: 'o' },
      'amount_column: expected it, or both',
    ],
    [
      'a column that is not there',
      { day_column: 'Posted On', amount_column: 'Total' },
      'own columns (posted on, total)',
    ],
  ])('with %s is refused', async (_, columns, message) => {
    const { gateway, reconcile } = await open()
    const refused = reconcile(bill, { provider: 'local', ...columns })
    await expect(refused).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining(message),
    })
    await gateway.close()
  })
})

const HEAD = 'date,model,amount_usd\n'

test.each<[string, string, object, string]>([
  ['no file', '', {}, 'expected a CSV file'],
  ['other columns', 'a,b\n1,2\n', {}, 'expected the columns of OpenAI costs'],
  ['no lines', HEAD, {}, 'expected a line'],
  ['no provider', `${HEAD}2026-11-01,up,1\n`, { provider: undefined }, 'provider: expected it'],
  ['an unknown provider', `${HEAD}2026-11-01,up,1\n`, { provider: 'nobody' }, 'found nobody'],
  ['a day of no calendar', `${HEAD}2026-11-01,up,1\n2026-02-30,up,1\n`, {}, 'line 3: date'],
  ['a day in words', `${HEAD}yesterday,up,1\n`, {}, 'line 2: date: expected a day'],
  ['an amount in words', `${HEAD}2026-11-01,up,one\n`, {}, 'line 2: amount_usd: expected'],
  ['a field too many', `${HEAD}2026-11-01,up,1,2\n`, {}, 'line 2: expected 3 fields, found 4'],
  [
    'another currency',
    'start_time,line_item,amount_value,amount_currency\n2026-11-01,up,1,eur\n',
    {},
    'line 2: amount_currency: expected usd',
  ],
  ['an amount of no end', `${HEAD}2026-11-01,up,1e99999\n`, {}, 'line 2: amount_usd: expected'],
  [
    'half a token',
    'start_time,model,input_tokens,output_tokens\n2026-11-01,up,1.5,1\n',
    {},
    'line 2: input_tokens: expected a count',
  ],
])('a bill with %s is refused', async (_, text, input, message) => {
  const { gateway, reconcile } = await open()
  const refused = reconcile(text, { provider: 'local', ...input })
  await expect(refused).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining(message),
  })
  await gateway.close()
})
