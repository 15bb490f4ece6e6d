import { expect, test } from 'bun:test'
import { readCsv } from '../../../src/core/kernel/csv.ts'
import { reconcileInvoice, renderUsd } from '../../../src/core/telemetry/reconciliation.ts'
import { buildPaidModel } from '../../support/batches.ts'
import { testGateway } from '../../support/gateway.ts'
import { buildGeneration, buildStepCharge } from '../../support/generation.ts'

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
async function open() {
  const config = buildPaidModel('http://127.0.0.1:1')
  const gateway = await testGateway({
    config: { ...config, providers: { local: { ...config.providers.local, name: 'Local' } } },
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

test('the exports of OpenAI and Anthropic are known by their columns', async () => {
  const { gateway, reconcile } = await open()
  const openai =
    'start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,line_item\n' +
    '1793491200,1793577600,2026-11-01T00:00:00+00:00,2026-11-02T00:00:00+00:00,0.5,usd,"up, input"\n' +
    '1793491200,1793577600,2026-11-01T00:00:00+00:00,2026-11-02T00:00:00+00:00,0.25,usd,"up, output"\n'
  expect(await reconcile(openai)).toMatchObject({ data: [], total: { format: 'OpenAI costs' } })
  const usage =
    'start_time,model,num_model_requests,input_tokens,output_tokens\n1793491200,up,2,20,10\n'
  expect(await reconcile(usage)).toMatchObject({ data: [], total: { format: 'OpenAI usage' } })
  const anthropic = 'usage_date_utc,model,cost_usd\n2026-11-01,up,0.75\n'
  expect(await reconcile(anthropic)).toMatchObject({ data: [], total: { compared: 1 } })
  const tokens =
    'usage_date_utc,model_version,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,' +
    'usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens\n' +
    '2026-11-01,up,10,0,4,6,11\n'
  expect((await reconcile(tokens)).data).toMatchObject([{ billed_tokens: 31, charged_tokens: 30 }])
  await gateway.close()
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
