import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'
import { type Server, startServer } from '../support/server.ts'

describe('gateway audit', () => {
  const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const run = (...args: string[]) => runCommand([...args, '--data', data])
  let hash: string

  beforeAll(async () => {
    await run('init')
    hash = JSON.parse((await run('keys', 'create', '--name', 'ci', '--json')).stdout).data.hash
    await run('keys', 'update', hash, '--disable')
  })
  afterAll(() => rmSync(data, { recursive: true, force: true }))

  test('lists changes at the terminal, first keys included, with the changed fields', async () => {
    const { code, stdout } = await run('audit', 'list')
    const [heading, ...lines] = stdout.trimEnd().split('\n')
    expect([code, heading?.split(/ {2,}/)]).toEqual([
      0,
      ['WHEN', 'ACTION', 'RESOURCE', 'CHANGED', 'BY', 'WITH KEY'],
    ])
    expect(lines.map(line => line.split(/ {2,}/)[1])).toEqual([
      'keys.update',
      'keys.create',
      'keys.create',
      'keys.create',
    ])
    expect(lines[0]).toMatch(
      new RegExp(`${hash} {2}disabled updated_at {2}user_[0-9a-f]{32} {2}operator$`),
    )
  })

  test('takes every filter of the API, and a workspace by its slug', async () => {
    const total = async (...args: string[]) =>
      JSON.parse((await run('audit', 'list', '--json', ...args)).stdout).total_count
    expect(await total('--action', 'keys.update')).toBe(1)
    expect(await total('--resource', hash)).toBe(2)
    expect(await total('--user', 'nobody')).toBe(0)
    expect(await total('--key', hash)).toBe(0)
    expect(await total('--workspace', 'default', '--limit', '1', '--offset', '1')).toBe(4)
    expect(await total('--workspace', '00000000-0000-7000-8000-0000000000ff')).toBe(0)
    for (const since of ['2020-01-01T00:00:00Z', '2020-01-01T00:00', '2020-01-01', '1h'])
      expect([since, await total('--since', since)]).toEqual([since, 4])
    expect(await total('--until', '2020-01-01T00:00:00Z')).toBe(0)
  })

  test.each([
    ['a workspace that is none', ['--workspace', 'nowhere']],
    ['a time that is none', ['--since', 'yesterday']],
    ['a page of none', ['--limit', '0']],
  ])('%s is wrong usage', async (_, args) => {
    const { code, stdout, stderr } = await run('audit', 'list', ...args)
    expect([code, stdout, /^gateway: [^\n]+\n$/.test(stderr)]).toEqual([2, '', true])
  })
})

describe('beside a running server', () => {
  let server: Server
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server[Symbol.asyncDispose]())

  test('--json prints exactly what the API returns, for changes by either', async () => {
    await server.fetch('/keys', { key: server.management_key, json: { name: 'over HTTP' } })
    await runCommand(['keys', 'create', '--name', 'at the terminal', '--data', server.data])
    const overHttp = await (await server.fetch('/audit', { key: server.management_key })).json()
    const { stdout } = await runCommand(['audit', 'list', '--json', '--data', server.data])
    expect(JSON.parse(stdout)).toEqual(overHttp)
    const { data } = overHttp as { data: { actor: string; after: { name: string } }[] }
    expect(data.map(({ actor, after }) => [actor, after.name])).toEqual([
      ['operator', 'at the terminal'],
      ['management', 'over HTTP'],
      ['operator', 'inference'],
      ['operator', 'management'],
    ])
  })
})
