import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/base/errors.ts'
import { toPrintable } from '../../src/base/printable.ts'
import { renderEntry } from '../../src/cli/commands/watch/line.ts'
import { EntryFilter } from '../../src/cli/commands/watch.ts'
import { serveStatus } from '../../src/cli/status-socket.ts'
import type { ActivityEntry } from '../../src/extensions/activity/entries.ts'
import { startTellingServer, type TellingServer } from '../support/activity.ts'
import { runCommand } from '../support/commands.ts'

let server: TellingServer
beforeAll(async () => {
  server = await startTellingServer()
})
afterAll(() => server[Symbol.asyncDispose]())

/** Waits until so many listen to the feed. */
async function listening(count: number): Promise<void> {
  while (server.gateway.activity.size !== count) await Bun.sleep(1)
}

/** Watches with these options while a call is made. */
async function watch(...args: string[]) {
  const printed = runCommand(['watch', ...args])
  await listening(1)
  await server.call()
  const result = await printed
  await listening(0)
  return result
}

describe('gateway watch', () => {
  test('refuses a field that no entry has, by its name', async () => {
    for (const [given, named] of [
      ['costs', 'costs'],
      ['id,toString', 'toString'],
      ['endpoints.0.id,nope.id', 'nope.id'],
      ['', ''],
    ] as const) {
      const { code, stderr } = await runCommand(['watch', '--data', server.data, '--field', given])
      expect([code, stderr.split('\n').length]).toEqual([2, 2])
      expect(stderr).toMatch(/^gateway: --field: expected type, at, id, .*, version, found /)
      expect(stderr).toEndWith(`found ${named}\n`)
    }
  })

  test('begins with the last calls, and refuses what is no number of them', async () => {
    const id = (await server.call()).headers.get('x-generation-id')
    const args = ['watch', '--past', '1', '--json', '--limit', '3', '--data', server.data]
    const { stdout } = await runCommand(args)
    await listening(0)
    const entries = stdout.trim().split('\n')
    expect(JSON.parse(entries.at(-1) ?? '')).toMatchObject({ type: 'call.finished', id })
    for (const past of ['-1', '1001', '1.5', 'x'])
      expect((await runCommand(['watch', '--past', past, '--data', server.data])).code).toBe(2)
  })

  test('prints a call line by line, over the socket of the data directory', async () => {
    const { code, stdout } = await watch('--data', server.data, '--limit', '5')
    expect(code).toBe(0)
    expect(stdout.split('\n').map(line => line.split(/ {2,}/)[1])).toEqual([
      ...['call.opened', 'call.planned', 'attempt.started', 'call.answering', 'call.finished'],
      undefined as never,
    ])
    expect(stdout).toMatch(/call\.finished {4}gen-\S+ {2}200 stop {2}sandbox\/echo/)
  })

  test('prints entries as JSON, and of a gateway elsewhere with its key', async () => {
    process.env.GATEWAY_KEY = server.management_key
    const { code, stdout } = await watch('--url', server.url, '--json', '--limit', '4')
    expect(code).toBe(0)
    const types = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line).type)
    expect(types.slice(0, 2)).toEqual(['listening', 'state'])
    process.env.GATEWAY_KEY = server.inference_key
    const refused = await runCommand(['watch', '--url', server.url])
    expect([refused.code, refused.stderr]).toEqual([
      5,
      'gateway: Only management keys can perform this operation\n',
    ])
    delete process.env.GATEWAY_KEY
  })

  test('says in one line where there is nothing to watch, and what is wrong', async () => {
    const empty = mkdtempSync(join(tmpdir(), 'gateway-unwatched-'))
    const answers = [
      await runCommand(['watch', '--data', empty]),
      await runCommand(['watch', '--url', 'nonsense'], { env: { GATEWAY_KEY: 'x' } }),
      await runCommand(['watch', '--url', 'http://127.0.0.1:1'], { env: { GATEWAY_KEY: 'x' } }),
      await runCommand(['watch', '--status', 'bad']),
      await runCommand(['watch', '--limit', '0.5']),
    ]
    expect(answers.map(({ code }) => code)).toEqual([3, 2, 1, 2, 2])
    expect(answers.map(({ stderr }) => stderr.split('\n').length)).toEqual([2, 2, 2, 2, 2])
    rmSync(empty, { recursive: true })
  })
})

describe('a reader that stalls', () => {
  test('holds up no call, loses what is too much, and is told how much', async () => {
    const { promise: told, resolve } = Promise.withResolvers<number>()
    let text = ''
    const socket = await Bun.connect({
      unix: join(server.data, 'serve.sock'),
      socket: {
        data: (_, bytes) => {
          text += Buffer.from(bytes).toString()
          const [, count] = /"type":"lost".*"count":(\d+)/.exec(text) ?? []
          if (count) resolve(Number(count))
        },
      },
    })
    socket.write('{"do":"watch"}\n')
    await listening(1)
    socket.pause()
    const error = new GatewayError('server', 'x'.repeat(10_000))
    for (let i = 0; i < 5_000; i++) server.gateway.events.publish('config.rejected', { error })
    expect((await server.call()).status).toBe(200)
    socket.resume()
    expect(await told).toBeGreaterThan(2_000)
    socket.end()
    await listening(0)
  })

  test('is refused what is no request', async () => {
    for (const request of ['nonsense', '{"do":"fly"}', '{"do":"toString"}', 'x'.repeat(20_000)]) {
      const { promise: closed, resolve } = Promise.withResolvers<void>()
      const socket = await Bun.connect({
        unix: join(server.data, 'serve.sock'),
        socket: { data: () => undefined, close: () => resolve() },
      })
      socket.write(`${request}\n`)
      await closed
    }
    expect(server.gateway.activity.size).toBe(0)
  })
})

describe('gateway providers rest and wake', () => {
  test('change the circuit of the running server, and are audited', async () => {
    const id = 'sandbox/echo sandbox/echo'
    const handle = (...args: string[]) => runCommand(['providers', ...args, '--data', server.data])
    expect(await handle('rest', id, '--for', '30m')).toMatchObject({
      code: 0,
      stdout: `${id} rests for 1800 s\n`,
    })
    expect(server.gateway.traffic.health.listCooldowns()).toMatchObject([
      { endpoint: id, reason: 'by_hand' },
    ])
    expect((await server.call()).status).toBe(200)
    expect(await handle('wake', ...id.split(' '))).toMatchObject({
      code: 0,
      stdout: `${id} is awake\n`,
    })
    const { entries } = await server.gateway.store.audit.listPage({ resource_id: id }, 0, 10)
    expect(entries.map(({ action, actor }) => [action, actor])).toEqual([
      ['endpoints.wake', 'operator'],
      ['endpoints.rest', 'operator'],
    ])
    expect((await handle('wake', 'acme/none')).code).toBe(3)
    expect((await handle('rest', id, '--for', '2d')).code).toBe(2)
  })
})

describe('a filter of entries', () => {
  const entry = (type: string, more: object) => ({ type, at: '', ...more }) as ActivityEntry
  const call = [
    entry('call.opened', { id: '1', key_hash: 'abc', key_name: 'Laptop', models: ['m/1'] }),
    entry('attempt.failed', { id: '1', provider: 'bad', model: 'm/1', status: 503 }),
    entry('attempt.started', { id: '1', provider: 'good', model: 'm/1' }),
    entry('call.finished', { id: '1', model: 'm/1', provider_name: 'good', status: 200 }),
    entry('config.applied', { changed: [] }),
  ]
  const count = (filter: EntryFilter) => call.filter(one => filter.matches(one)).length

  test('follows a call by what its entries have told of it', () => {
    expect(count(new EntryFilter({}))).toBe(5)
    expect(count(new EntryFilter({ key: 'lap' }))).toBe(4)
    expect(count(new EntryFilter({ key: 'ab' }))).toBe(4)
    expect(count(new EntryFilter({ model: 'm/1' }))).toBe(4)
    expect(count(new EntryFilter({ provider: 'good' }))).toBe(2)
    expect(count(new EntryFilter({ status: '5xx' }))).toBe(1)
    expect(count(new EntryFilter({ status: '200', key: 'Other' }))).toBe(0)
  })

  test('lets no text of a caller move the cursor', () => {
    const text = 'evil\u001b[2J\u202e\n'
    const line = renderEntry(
      entry('call.refused', { id: text, status: 400, model: text, key_name: text, message: text }),
    )
    expect(line).toBe(toPrintable(line ?? ''))
  })
})

test('X-46 the socket of a data directory is its owner’s alone, as is the directory', async () => {
  const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const stop = serveStatus(data, { describe: () => '{}' } as Parameters<typeof serveStatus>[1])
  const modes = [data, ...readdirSync(data).map(name => join(data, name))].map(
    path => statSync(path).mode & 0o077,
  )
  stop()
  rmSync(data, { recursive: true })
  expect(modes).toEqual([0, 0])
})
