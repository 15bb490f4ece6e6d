import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/core/gateway.ts'
import { getOperator } from '../../src/core/identity/actor.ts'
import { createKey } from '../../src/core/identity/keys.ts'
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
  expect(await calls('--since', '2026-03-04T00:00:00Z', '--until', '2026-03-05')).toBe(1)
  expect(await calls('--key', 'ci')).toBe(1)
  expect(await calls('--model', 'acme/two')).toBe(1)
  expect(await calls('--provider', 'nobody')).toBe(0)
})

test.each<string[]>([
  ['--by', 'week'],
  ['--since', 'yesterday'],
  ['--since', '2026-13-01'],
  ['--until', '2026-03-05T00:00Z'],
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
