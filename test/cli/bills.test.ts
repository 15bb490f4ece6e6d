import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildPaidModel } from '../support/batches.ts'
import { runCommand } from '../support/commands.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { buildGeneration, buildStepCharge } from '../support/generation.ts'

let data: string

beforeAll(async () => {
  data = mkdtempSync(join(tmpdir(), 'gateway-bills-'))
  const models = buildPaidModel('http://127.0.0.1:1')
  const local = { ...models.providers.local, name: 'Local' }
  const config = { ...models, providers: { local } }
  writeFileSync(join(data, 'gateway.yaml'), JSON.stringify(config))
  const gateway = await testGateway({ data, config })
  const { hash: key_hash } = await createTestKeys(gateway)
  const [id, settled_at] = ['gen-1', '2026-03-01T10:00:00.000Z']
  const money = { total_cost: 20_000n, upstream_inference_cost: 20_000n }
  const day = Date.parse('2026-03-01') / 86_400_000
  await gateway.store.generations.record([
    {
      generation: buildGeneration({ id, key_hash, created_at: settled_at, settled_at, ...money }),
      charge: buildStepCharge({ id, key_hash, settled_at, day, nanos: 20_000n }),
    },
  ])
  await gateway.close()
})
afterAll(() => rmSync(data, { recursive: true, force: true }))

const run = (...args: string[]) => runCommand([...args, '--data', data])

async function writeBill(text: string): Promise<string> {
  const path = join(data, 'bill.csv')
  await Bun.write(path, text)
  return path
}

test('a bill that differs ends with 1, and one that does not with 0', async () => {
  const right = await writeBill('date,model,amount_usd\n2026-03-01,up,0.00002\n')
  const same = await run('audit', 'reconcile', right, '--provider', 'local')
  expect(same).toMatchObject({ code: 0, stdout: expect.stringContaining('1 compared, 0 differ') })
  const wrong = await writeBill('date,model,amount_usd\n2026-03-01,up,0.00005\n')
  const shown = await run('audit', 'reconcile', wrong, '--provider', 'local')
  expect(shown.code).toBe(1)
  expect(shown.stdout).toMatch(/2026-03-01 +acme\/small +differs +0.00005 +0.00002 +0.00003/)
  const json = await run('audit', 'reconcile', wrong, '--provider', 'local', '--json')
  expect(JSON.parse(json.stdout)).toMatchObject({
    data: [{ difference_usd: '0.00003' }],
    total: { differing: 1 },
  })
  const own = await writeBill('Day,Product,Cost\n2026-03-01,up,0.00002\n')
  const named = ['--day-column', 'Day', '--model-column', 'Product', '--amount-column', 'Cost']
  const read = await run('audit', 'reconcile', own, '--provider', 'local', ...named)
  expect(read).toMatchObject({ code: 0, stdout: expect.stringContaining('1 compared, 0 differ') })
  const half = await run('audit', 'reconcile', own, '--provider', 'local', '--day-column', 'Day')
  expect([half.code, half.stderr]).toEqual([2, expect.stringContaining('--amount-column')])
  const bad = await writeBill('date,model,amount_usd\n2026-03-01,up,much\n')
  expect(await run('audit', 'reconcile', bad, '--provider', 'local')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('line 2: amount_usd'),
  })
  expect(await run('audit', 'reconcile', 'none.csv')).toMatchObject({ code: 3 })
  expect(await run('audit', 'reconcile', right, '--tolerance', '-1')).toMatchObject({ code: 2 })
})

test('a period is priced again once, after it was shown, and the ledger holds', async () => {
  const args = ['ledger', 'reprice', '--model', 'acme/small', '--provider', 'local']
  const days = ['--from', '2026-03-01', '--to', '2026-03-01']
  const prices = [
    '--was-prompt',
    '1',
    '--was-completion',
    '2',
    '--prompt',
    '3',
    '--completion',
    '4',
  ]
  const shown = await run(...args, ...days, ...prices)
  expect(shown).toMatchObject({ code: 0, stdout: expect.stringContaining('--yes corrects it') })
  const done = await run(...args, ...days, ...prices, '--yes')
  expect(done.stdout).toContain('Corrected by 0.00003 USD, in 1 entry')
  const again = await run(...args, ...days, ...prices, '--yes')
  expect(again.stdout).toContain('Nothing differs')
  expect(await run('doctor')).toMatchObject({ code: 0 })
  const usage = await run('usage', '--json')
  expect(JSON.parse(usage.stdout).total).toMatchObject({ cost: 0.00005, calls: 1 })
  expect(await run(...args, '--from', 'x', '--to', 'y')).toMatchObject({ code: 2 })
  expect(await run(...args, ...days, '--prompt', '-1')).toMatchObject({ code: 2 })
})
