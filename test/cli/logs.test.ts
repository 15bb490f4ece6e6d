import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import type { Refusal } from '../../src/observability/refusals.ts'
import { runCommand } from '../support/commands.ts'
import { PROGRAM } from '../support/server.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-logs-'))
const gateway = await openGateway({ data })
afterAll(async () => {
  await gateway.close()
  rmSync(data, { recursive: true, force: true })
})

const buildRefusal = (id: string, fields: Partial<Refusal> = {}): Refusal => ({
  id,
  created_at: '2026-11-22T10:00:00.000Z',
  path: '/api/v1/chat/completions',
  status: 401,
  error_type: 'authentication',
  message: `wrong\u001b[2J ${id}`,
  key: null,
  key_hash: null,
  workspace_id: null,
  model: null,
  ...fields,
})
const refuse = (...refusals: Refusal[]) => gateway.store.refusals.add(refusals, [], 1_000)
const logs = (...args: string[]) => runCommand(['logs', ...args, '--data', data])

test('pages of refused calls go on by a cursor, or to the end with --all', async () => {
  await refuse(...Array.from({ length: 130 }, (_, i) => buildRefusal(`page-${i}`)))
  const first = await logs('--limit', '2')
  expect(first.stdout.trim().split('\n')).toHaveLength(3)
  const [, cursor = ''] = /--cursor (\d+) shows the next, --all all/.exec(first.stderr) ?? []
  expect((await logs('--limit', '1', '--cursor', cursor)).stdout).toContain('page-127')
  const { data: all } = JSON.parse((await logs('--all', '--json')).stdout)
  expect(new Set(all.map(({ id }: Refusal) => id)).size).toBe(130)
})

test('what has no line of its own is counted, and the count is explained', async () => {
  const created_at = '2026-11-22T11:00:00.000Z'
  const flood = buildRefusal('flood', { created_at })
  const count = { id: 'flood', created_at, left_out: 312, left_out_until: created_at }
  await gateway.store.refusals.add([flood], [count], 1_000)
  const { stdout, stderr } = await logs('--id', 'flood')
  expect(stdout).toMatch(/ALIKE .*\n.* \+312 +flood\n$/)
  expect(stderr).toContain('ALIKE: refusals of that hour with the same status')
})

test('what has no model shows its path', async () => {
  await refuse(buildRefusal('astray', { path: '/api/v1/v1/messages' }))
  const { stdout } = await logs('--id', 'astray')
  expect(stdout).toMatch(/MODEL OR PATH .*\n.* 401 +\/api\/v1\/v1\/messages +wrong/)
})

test('--key and --status choose', async () => {
  const { stdout } = await runCommand([
    'keys',
    'create',
    '--name',
    'mine',
    '--json',
    '--data',
    data,
  ])
  const key_hash = JSON.parse(stdout).data.hash
  await refuse(
    buildRefusal('mine-402', { key_hash, status: 402 }),
    buildRefusal('other-402', { status: 402 }),
  )
  const ids = JSON.parse((await logs('--key', 'mine', '--status', '402', '--json')).stdout)
  expect(ids.data.map(({ id }: Refusal) => id)).toEqual(['mine-402'])
})

test('--status takes a hundred, and --key that names nothing is an error', async () => {
  await refuse(...[499, 500, 503].map(status => buildRefusal(`status-${status}`, { status })))
  const { data: found } = JSON.parse((await logs('--status', '5xx', '--json')).stdout)
  expect(found.map(({ id }: Refusal) => id)).toEqual(['status-503', 'status-500'])
  for (const [command = '', ...verb] of [['logs'], ['usage'], ['generations', 'list']])
    expect(await runCommand([command, ...verb, '--key', 'zzz', '--data', data])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: 'gateway: zzz: expected an id or a name of one API key, found none\n',
    })
  expect((await logs('--key', 'f'.repeat(64))).code).toBe(0)
})

test.each([
  [['--follow', '--limit', '2']],
  [['--follow', '--all']],
  [['--follow', '--cursor', '4']],
  [['--cursor', '-1']],
  [['--cursor', 'x']],
  [['--status', '200']],
  [['--status', '1.5']],
])('%j is refused', async args => {
  const { code, stdout, stderr } = await logs(...args)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(/^gateway: --(follow|cursor|status): expected [^\n]+\n$/)
})

test.each([
  ['text', [], (line: string) => line],
  ['JSON', ['--json'], (line: string) => JSON.stringify(JSON.parse(line))],
])('--follow shows in %s what is refused from now on, until Ctrl-C', async (_, flags, read) => {
  await refuse(buildRefusal('before'))
  const child = Bun.spawn([...PROGRAM, 'logs', '--follow', ...flags, '--data', data], {
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const decoder = new TextDecoder()
  const notes = child.stderr.getReader()
  expect(decoder.decode((await notes.read()).value)).toBe(
    'Waiting for refused calls. Ctrl-C ends\n',
  )
  // It looks for the last one after that line, so the first may be missed: it is sent again.
  const lines = child.stdout.getReader()
  let shown: string | undefined
  const reading = lines.read().then(({ value }) => {
    shown = decoder.decode(value)
  })
  for (let i = 0; shown === undefined; i++) {
    await refuse(buildRefusal(`after-${i}`))
    await Promise.race([reading, Bun.sleep(100)])
  }
  const [line = ''] = shown.split('\n')
  expect(read(line)).toContain('after-')
  expect(shown).not.toContain('before')
  expect(shown).not.toContain('\u001b')
  child.kill('SIGINT')
  expect(await child.exited).toBe(0)
})
