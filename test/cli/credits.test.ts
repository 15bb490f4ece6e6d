import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { waitUntil } from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { type Server, startServer } from '../support/server.ts'
import { readRefusedLimit } from '../support/shortage.ts'

describe('gateway credits', () => {
  const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const run = (...args: string[]) => runCommand(['credits', ...args, '--data', data], { cwd: data })
  beforeAll(() => runCommand(['init', '--data', data], { cwd: data }))
  afterAll(() => rmSync(data, { recursive: true, force: true }))

  test('adds, corrects, shows and lists, and says so where credits are not counted', async () => {
    const added = await run('add', '--amount', '25', '--note', 'March')
    expect(added).toEqual({
      code: 0,
      stdout:
        'Added $25.00; $25.00 in all\nThe config does not count in credits: limits.credits is off\n',
      stderr: '',
    })
    const corrected = JSON.parse((await run('add', '--amount=-5.5', '--json')).stdout)
    expect(corrected.data).toMatchObject({ amount: -5.5, note: null })
    expect(JSON.parse((await run('show', '--json')).stdout)).toEqual({
      data: { total_credits: 19.5, total_usage: 0 },
    })
    expect((await run('show')).stdout).toBe('total_credits  19.5\ntotal_usage    0\n')
    const { data: listed, total_count } = JSON.parse((await run('list', '--json')).stdout)
    expect([listed[0], total_count]).toEqual([corrected.data, 2])
    const [heading, ...lines] = (await run('list', '--limit', '1', '--offset', '1')).stdout
      .trimEnd()
      .split('\n')
    expect(heading?.split(/ {2,}/)).toEqual(['WHEN', 'AMOUNT', 'NOTE', 'BY', 'ID'])
    expect(lines.map(line => line.split(/ {2,}/).slice(1, 3))).toEqual([['$25.00', 'March']])
    const trail = await runCommand([
      'audit',
      'list',
      '--action',
      'credits.create',
      '--json',
      '--data',
      data,
    ])
    expect(JSON.parse(trail.stdout).total_count).toBe(2)
  })

  test.each([
    ['no amount', ['add']],
    ['an amount that is none', ['add', '--amount', 'much']],
    ['an amount of nothing', ['add', '--amount', '0']],
    ['an amount beyond reason', ['add', '--amount', '1e12']],
    ['an empty note', ['add', '--amount', '1', '--note', '']],
    ['a page of none', ['list', '--limit', '0']],
  ])('%s is wrong usage', async (_, args) => {
    const { code, stdout, stderr } = await run(...args)
    expect([code, stdout, /^gateway: [^\n]+\n$/.test(stderr)]).toEqual([2, '', true])
  })
})

describe('beside a running server', () => {
  let server: Server
  beforeAll(async () => {
    const endpoints = [
      { provider: 'sandbox', model: 'echo', usd_per_million_tokens: { prompt: 1, completion: 1 } },
    ]
    server = await startServer({
      config: { limits: { credits: true }, models: [{ id: 'acme/dear', endpoints }] },
    })
  })
  afterAll(() => server[Symbol.asyncDispose]())

  const chat = () =>
    server.fetch('/chat/completions', {
      json: { model: 'acme/dear', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] },
    })
  const balance = async () =>
    (
      (await (await server.fetch('/credits', { key: server.management_key })).json()) as {
        data: object
      }
    ).data

  test('the server spends what the terminal adds, and the terminal shows it', async () => {
    const refused = await chat()
    const { error } = (await refused.json()) as { error: { message: string } }
    expect([refused.status, readRefusedLimit(error.message)]).toEqual([
      402,
      `Insufficient credits. Add more using ${server.url}/credits`,
    ])
    await runCommand(['credits', 'add', '--amount', '1', '--data', server.data])
    await waitUntil(async () => (await chat()).status === 200)
    const { stdout } = await runCommand(['credits', 'show', '--json', '--data', server.data])
    const { data } = JSON.parse(stdout)
    expect([data.total_credits, data.total_usage > 0]).toEqual([1, true])
    expect(await balance()).toEqual(data)
    await runCommand(['credits', 'add', '--amount=-2', '--data', server.data])
    await waitUntil(async () => (await chat()).status === 402)
  })
})
