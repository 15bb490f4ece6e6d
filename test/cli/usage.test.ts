import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { renderCsvRow } from '../../src/cli/csv.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { runCommand } from '../support/commands.ts'
import { buildGeneration } from '../support/generation.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-usage-'))
afterAll(() => rmSync(data, { recursive: true, force: true }))
const run = (...args: string[]) => runCommand([...args, '--data', data])
const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout)

beforeAll(async () => {
  const gateway = await openGateway({ data })
  const { data: key } = await createKey(gateway, getOperator(gateway), { name: 'ci' })
  const calls = [
    { id: 'a', key_hash: key.hash, model: 'acme/one', total_cost: 1n, day: '04' },
    { id: 'b', key_hash: null, model: 'acme/two', total_cost: 1_500_000_002n, day: '05' },
  ]
  for (const { day, ...call } of calls) {
    const time = `2026-03-${day}T00:00:00.500Z`
    const generation = buildGeneration({ ...call, created_at: time, settled_at: time })
    await gateway.store.generations.record([{ generation, charge: null }])
  }
  await gateway.close()
})

test('gateway usage sums by day, to the nano-dollar, with a total', async () => {
  const { stdout } = await run('usage')
  expect(stdout).toMatch(/^DAY +CALLS +INPUT TOKENS +OUTPUT TOKENS +COST +OWN KEYS\n/)
  expect(stdout).toMatch(/\n2026-03-04 +1 .* \$0\.000000001 /)
  expect(stdout).toMatch(/\n2026-03-05 +1 .* \$1\.500000002 /)
  expect(stdout).toMatch(/\ntotal +2 .* \$1\.500000003 /)
  expect((await json('usage')).total).toMatchObject({ calls: 2, cost: 1.500000003 })
})

test('by key it has their names, and calls without one', async () => {
  expect((await run('usage', '--by', 'key')).stdout).toMatch(/\n- +1 .*\nci +1 /)
})

test('it is of a time, a key, a model or a provider', async () => {
  const calls = async (...args: string[]) => (await json('usage', ...args)).total.calls
  expect(await calls('--since', '2026-03-05')).toBe(1)
  expect(await calls('--since', '99999d')).toBe(2)
  expect(await calls('--since', '2026-03-04T00:00:00Z', '--until', '2026-03-05')).toBe(1)
  expect(await calls('--key', 'ci')).toBe(1)
  expect(await calls('--model', 'acme/two')).toBe(1)
  expect(await calls('--provider', 'nobody')).toBe(0)
})

test('by several groups, over days with the last one, also as CSV', async () => {
  const { stdout } = await run('usage', '--by', 'day,model,key', '--to', '2026-03-05')
  expect(stdout).toMatch(/^DAY +MODEL +KEY +CALLS +INPUT TOKENS +OUTPUT TOKENS +COST +OWN KEYS\n/)
  expect(stdout).toMatch(/\n2026-03-04 +acme\/one +ci +1 /)
  expect(stdout).toMatch(/\n2026-03-05 +acme\/two +- +1 /)
  expect(stdout).toMatch(/\ntotal +2 /)
  const days = ['--from', '2026-03-05', '--to', '2026-03-05']
  expect((await run('usage', '--by', 'day,model,key', ...days, '--csv')).stdout).toBe(
    'day,model,key,calls,input_tokens,output_tokens,cost,byok_cost\r\n' +
      '2026-03-05,acme/two,,1,10,5,1.500000002,0\r\n',
  )
  const first = await run('usage', '--csv', '--to', '2026-03-04')
  expect(first.stdout).toContain(',0.000000001,0\r\n')
  expect((await json('usage', '--by', 'month')).data).toMatchObject([{ month: '2026-03-01' }])
})

test('generations are exported one a line, or as CSV that no spreadsheet runs', async () => {
  const lines = (await run('export', 'generations')).stdout.trim().split('\n')
  expect(lines.map(line => JSON.parse(line).id)).toEqual(['b', 'a'])
  const { stdout } = await run('export', 'generations', '--format', 'csv', '--model', 'acme/one')
  const [head, row, ...rest] = stdout.split('\r\n')
  expect(head).toMatch(/^id,/)
  expect(row).toMatch(/^a,/)
  expect(row).toContain('"[{""provider_name"":""Local"",')
  expect(rest).toEqual([''])
  const { code, stderr } = await run('export', 'generations', '--format', 'csv', '--json')
  expect([code, stderr]).toEqual([2, expect.stringContaining('--json')])
})

test('an export may be of some fields alone', async () => {
  const fields = ['export', 'generations', '--field', 'id,model,provider_responses.0.provider_name']
  expect((await run(...fields)).stdout).toBe('b\tacme/two\tLocal\na\tacme/one\tLocal\n')
  const unknown = await run('export', 'generations', '--field', 'nope')
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('found nope')])
  const csv = await run(...fields, '--format', 'csv')
  expect([csv.code, csv.stderr]).toEqual([2, expect.stringContaining('--field: expected no')])
})

test('X-10 a text that looks like a formula is one no more', () => {
  expect(renderCsvRow(['=1+1', '@a', '-1', 'a,"b"', 'two\nlines', null, -1, 5n])).toBe(
    `'=1+1,'@a,'-1,"a,""b""","two\nlines",,-1,5\r\n`,
  )
})

test('roll-ups are computed again, and found to be right', async () => {
  expect((await run('rollups', 'recompute')).stdout).toContain('records')
  expect((await run('doctor')).stdout).toMatch(/roll-ups +ok /)
  expect((await json('usage')).total.calls).toBe(2)
})

test('the median of sessions is shown where there are enough', async () => {
  const { stdout, stderr } = await run('datasets', 'session-cost')
  expect([stdout, stderr]).toEqual([
    '',
    expect.stringContaining('No sessions found that may be shown'),
  ])
  expect(await json('datasets', 'session-cost')).toMatchObject({
    data: [],
    meta: { version: 'v1', window_days: null, window_end_date: null },
  })
})

test.each<string[]>([
  ['--by', 'year'],
  ['--by', 'day,week'],
  ['--by', 'day,day'],
  ['--to', 'tomorrow'],
  ['--csv', '--json'],
  ['--until', '2026-03-04', '--since', '2026-03-05'],
  ['--since', 'yesterday'],
  ['--since', '2026-13-01'],
])('%s %s is refused', async (...args: string[]) => {
  const { code, stdout, stderr } = await run('usage', ...args)
  expect([code, stdout, stderr.includes(args[0] ?? '')]).toEqual([2, '', true])
})

test('generations list --since includes the second that it names', async () => {
  const { data } = await json('generations', 'list', '--since', '2026-03-05T00:00:00Z')
  expect(data).toMatchObject([{ id: 'b' }])
  const before = await json('generations', 'list', '--until', '2026-03-05T00:00:00Z')
  expect(before.data).toMatchObject([{ id: 'a' }])
})
