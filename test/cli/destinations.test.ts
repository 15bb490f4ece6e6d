import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { runCommand } from '../support/commands.ts'
import { buildRecordEntry } from '../support/generation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  writeFileSync(
    join(data, 'gateway.yaml'),
    JSON.stringify({ security: { allow_private_urls: [receiver.host] } }),
  )
  await runCommand(['init', '--data', data])
})
afterAll(async () => {
  await receiver.close()
  rmSync(data, { recursive: true })
})

const OFF =
  'Nothing is sent: is_observability_broadcast_enabled is off in the workspace default ' +
  '(gateway workspaces update default --broadcast yes)'

const run = (args: string[], env: Record<string, string> = {}) =>
  runCommand(['destinations', ...args, '--data', data, '--config', join(data, 'gateway.yaml')], {
    env,
  })
async function json(args: string[], env?: Record<string, string>) {
  const { code, stdout, stderr } = await run([...args, '--json'], env)
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout)
}
const lines = async (args: string[]) => (await run(args)).stdout.trim().split('\n')

test('a destination is created from options, variables and files, and never shows its secrets', async () => {
  const rules = join(data, 'rules.json')
  const groups = [{ rules: [{ field: 'model', operator: 'exists' }] }]
  writeFileSync(rules, JSON.stringify({ groups }))
  const { data: made } = await json(
    [
      ...['create', '--type', 'webhook', '--name', 'hook', '--set', `url=${receiver.url}/a`],
      ...['--set-env', 'headers.Authorization=HOOK_TOKEN', '--privacy', 'yes', '--cost', 'yes'],
      ...['--sampling-rate', '0.5', '--regions', 'eu,us', '--filters', rules],
    ],
    { HOOK_TOKEN: 'Bearer canary-0123456789' },
  )
  expect(made).toMatchObject({
    config: { url: `${receiver.url}/a`, headers: { Authorization: 'Bear...6789' } },
    privacy_mode: true,
    broadcast_generation_cost: true,
    sampling_rate: 0.5,
    regions: ['europe', 'us'],
    filter_rules: { groups },
  })
  const file = join(data, 'settings.json')
  writeFileSync(file, JSON.stringify({ publicKey: 'pk-lf-1', secretKey: 'canary-0123456789' }))
  await json(['create', '--type', 'langfuse', '--name', 'team', '--settings', file, '--disable'])
  const table = await lines(['list'])
  expect(table[0]).toMatch(/^NAME +TYPE +STATE +WAITING +FAILED +DROPPED +LAST +ID$/)
  expect(table.slice(1).map(line => line.split(/\s+/).slice(0, 3))).toEqual([
    ['hook', 'webhook', 'workspace'],
    ['team', 'langfuse', 'off'],
  ])
  const shown = (await run(['get', 'hook'])).stdout
  expect(shown).toContain('workspace off')
  expect([shown, (await run(['update', 'hook', '--privacy', 'yes'])).stdout]).toEqual([
    expect.stringContaining(OFF),
    expect.stringContaining(OFF),
  ])
  expect((await run(['get', 'team'])).stdout).not.toContain(OFF)
  expect(shown).not.toContain('canary')
  const { data: changed } = await json(['update', 'hook', '--filters', 'none', '--privacy', 'no'])
  expect([changed.filter_rules, changed.privacy_mode]).toEqual([null, false])
})

test('a destination is told that its workspace tells none, until that is on', async () => {
  const workspaces = (broadcast: string) =>
    runCommand(['workspaces', 'update', 'default', '--broadcast', broadcast, '--data', data])
  expect((await run(['test', 'hook'])).stderr).toBe(`${OFF}\n`)
  await workspaces('yes')
  expect((await run(['test', 'hook'])).stderr).toBe('')
  expect((await run(['get', 'hook'])).stdout).not.toContain(OFF)
  await workspaces('no')
})

test('a destination is tested, paused and resumed', async () => {
  expect(await run(['test', 'hook'])).toMatchObject({
    code: 0,
    stdout: 'passed: it answered 200\n',
  })
  expect(receiver.requests.at(-1)?.headers).toMatchObject({
    authorization: 'Bearer canary-0123456789',
  })
  receiver.answer = () => ({ status: 403 })
  const failed = await run(['test', 'hook'])
  expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining('It answered 403')])
  expect((await run(['pause', 'hook'])).stdout).toBe('hook is paused\n')
  expect((await run(['resume', 'hook'])).stdout).toBe('hook is told again\n')
})

test('what was refused is listed, replayed and dropped', async () => {
  const gateway = await openGateway({ data })
  const [id = ''] = gateway.memory.destinations.keys()
  const refusal = { reason: 'It answered 401', status: 401, failed_at: '2026-03-04T05:06:07.000Z' }
  await gateway.store.generations.record(
    ['a', 'b'].map(name => ({
      ...buildRecordEntry(name),
      outbox: [{ topic: 'trace', payload: '{}', receivers: [id] }],
    })),
  )
  await gateway.store.deliveries.fail(id, [1, 2], refusal, 10)
  const none = await run(['failures', 'telemetry.otlp'])
  expect([none.stdout, none.stderr]).toEqual(['', 'No failed deliveries\n'])
  const [head, first, second] = await lines(['failures', 'hook'])
  expect(head).toMatch(/^GENERATION +STATUS +REASON +AT$/)
  expect([first, second].map(line => line?.split(/\s+/)[0])).toEqual(['a', 'b'])
  expect((await run(['replay', 'hook'])).stdout).toBe('Waiting again: 2\n')
  await gateway.store.deliveries.fail(id, [1], refusal, 10)
  expect((await run(['drop', 'hook', '--yes'])).stdout).toBe('Dropped: 1\n')
  expect((await gateway.store.deliveries.count())[0]).toMatchObject({
    ...{ waiting: 1, failed: 0, dropped: 1 },
  })
  await gateway.close()
  expect((await run(['delete', 'hook', '--yes'])).code).toBe(0)
})

test('what the operator’s own collector has refused is reached by its setting’s name', async () => {
  expect(await json(['failures', 'telemetry.otlp'])).toEqual({ data: [], total_count: 0 })
  expect((await run(['drop', 'telemetry.otlp', '--yes'])).stdout).toBe('Dropped: 0\n')
  const refused = await run(['replay', 'telemetry.otlp'])
  expect(refused.stderr).toContain('the config names no collector')
})

test.each([
  [['create', '--type', 'webhook', '--name', 'x'], 2],
  [['create', '--type', 'webhook', '--name', 'x', '--set', 'url'], 2],
  [['create', '--type', 'webhook', '--name', 'x', '--set-env', 'url=NO_SUCH_VARIABLE_'], 2],
  [['create', '--type', 'webhook', '--name', 'x', '--settings', '/nowhere'], 2],
  [['create', '--type', 'fax', '--name', 'x', '--set', 'url=https://a.example.com'], 2],
  [['update', 'team'], 2],
  [['get', 'nobody'], 3],
])('%p ends with %d and one line', async (args, code) => {
  const result = await run(args)
  expect([result.code, result.stdout]).toEqual([code, ''])
  expect(result.stderr).toMatch(/^gateway: [^\n]+\n$/)
})
