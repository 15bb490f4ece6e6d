import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { takeOver } from '../../src/cli/commands/serve/takeover.ts'
import { serveStatus } from '../../src/cli/status-socket.ts'
import { LOG_BEFORE, listSegments } from '../../src/store/log.ts'
import { MIGRATIONS } from '../../src/store/sqlite/migrations.ts'
import { findFaults, listHeldCalls, readBooks } from '../support/books.ts'
import {
  createLimitedKey,
  fetchKeyState,
  limitEachUser,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { openDatabase } from '../support/database.ts'
import { type RawCall, request } from '../support/raw-client.ts'
import { type Server, startServer } from '../support/server.ts'
import { type Successor, startSuccessor, UpgradeRig } from '../support/upgrade.ts'
import {
  completion,
  delta,
  done,
  finish,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
} from '../support/upstream.ts'

const onLinux = test.skipIf(process.platform !== 'linux')

const SMALL = { streams: 5, chunks: 20, interval: 50, rate: 40 }
const NONE = { refused: 0, cut: 0, lost: 0, twice: 0 }

onLinux('O-09 an upgrade refuses no call, cuts no stream, and charges each once', async () => {
  await using rig = await UpgradeRig.open(SMALL)
  rig.start()
  await waitUntil(() => rig.figures.calls > 20)
  const { child, address } = startSuccessor(rig.server.data)
  try {
    expect(await address).toBe(rig.server.url)
    expect(await rig.server.process.exited).toBe(0)
    const before = rig.figures.calls
    await waitUntil(() => rig.figures.calls > before + 20)
    await rig.finish()
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
    expect(rig.takeFailures()).toEqual([])
    expect(rig.compareBooks()).toMatchObject(NONE)
    expect(await findFaults(rig.server.data)).toBeNull()
  } finally {
    child.kill('SIGKILL')
  }
})

describe('a server that is taken over', () => {
  let upstream: Upstream
  let server: Server
  let key: string
  const successors: Successor[] = []
  const restarts: Server[] = []

  beforeEach(async () => {
    upstream = await startUpstream()
    server = await startServer({ config: buildConfig(upstream.url) })
    // Some ten tokens of input and at most fifty of output are 0.06 USD: no second call fits.
    key = await createLimitedKey(server, 0.1)
  })

  afterEach(async () => {
    for (const { child } of successors.splice(0)) child.kill('SIGKILL')
    for (const { process } of restarts.splice(0)) process.kill('SIGKILL')
    await server[Symbol.asyncDispose]()
    await upstream.close()
  })

  const buildConfig = (base_url: string) => ({
    server: { metrics_address: '127.0.0.1:0' },
    limits: { concurrent_requests: 3, strict: false, wait_seconds: 0 },
    providers: { local: { protocol: 'openai-chat', base_url, api_key: 'mock' } },
    models: [
      {
        id: 'acme/small',
        context_length: 128_000,
        endpoints: [
          {
            ...{ provider: 'local', model: 'm' },
            usd_per_million_tokens: { prompt: 1_000, completion: 1_000 },
          },
        ],
      },
    ],
  })

  function succeed(args?: string[]): Successor {
    const successor = startSuccessor(server.data, args)
    successors.push(successor)
    return successor
  }

  const ask = (fields: object = {}) =>
    sendChat(server, { max_tokens: 50, stream: true, ...fields }, { key })

  /** Asks for a whole answer. */
  const askWhole = async () => (await ask({ stream: false }).outcome()).status

  /** Begins an answer that goes on when its gate opens. */
  async function beginStream(): Promise<RawCall> {
    upstream.plan(
      [
        ...[sseHead(), delta('Hello'), { wait: 'rest' }, delta('you')],
        ...[finish('stop', usage(10, 5)), done()],
      ],
      [completion('Hello')],
    )
    const call = ask()
    await call.sees('Hello')
    return call
  }

  async function endStream(call: RawCall): Promise<void> {
    upstream.open('rest')
    const { body, complete } = await call.outcome()
    expect([complete, body]).toEqual([true, expect.stringContaining('data: [DONE]')])
  }

  /** What a call of ten and five tokens costs, in nano-dollars. */
  const COST = 15_000_000

  const expectCharged = (calls: number) =>
    expect(readBooks(server.data, key)).toEqual({
      ...{ ledger: calls * COST, counted: calls * COST, recorded: calls * COST },
      ...{ calls, held: 0 },
    })

  /** Starts a server there as after a crash. */
  const restart = async (): Promise<Server> => {
    const restarted = await startServer({ config: buildConfig(upstream.url), data: server.data })
    restarts.push(restarted)
    return restarted
  }

  onLinux('is charged for what it finishes, and its holds count for the other', async () => {
    const call = await beginStream()
    const { address, child } = succeed()
    await address
    expect(await askWhole()).toBe(402)
    await endStream(call)
    expect(await server.process.exited).toBe(0)
    expect(await askWhole()).toBe(200)
    expect(await fetchKeyState(server, key)).toMatchObject({ usage: 0.03 })
    expectCharged(2)
    expect(listSegments(server.data, LOG_BEFORE)).toEqual([])
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
    expect(await findFaults(server.data)).toBeNull()
  })

  onLinux('holds the budgets of end users together with the other', async () => {
    key = await createLimitedKey(server, 1)
    await limitEachUser(server, 0.1)
    const askAs = async (user: string) => (await ask({ stream: false, user }).outcome()).status
    upstream.plan(
      [
        ...[sseHead(), delta('Hello'), { wait: 'rest' }, delta('you')],
        ...[finish('stop', usage(10, 5)), done()],
      ],
      [completion('Hello', { usage: usage(10, 50) })],
    )
    const call = ask({ user: 'ada' })
    await call.sees('Hello')
    await succeed().address
    expect([await askAs('ada'), await askAs('eve')]).toEqual([402, 200])
    await endStream(call)
    expect(await server.process.exited).toBe(0)
    // A call needs some 0.06 USD. Of each 0.1 the first of ada has cost 0.015, and all others 0.06.
    expect([await askAs('ada'), await askAs('ada'), await askAs('eve')]).toEqual([200, 402, 402])
    expect(await findFaults(server.data)).toBeNull()
  })

  onLinux(
    'answers on connections that clients keep, within the limits, and closes them',
    async () => {
      const kept = () => request(`${server.base}/chat/completions`, { raw: buildKept(server, key) })
      upstream.plan([completion('Hello')])
      const first = kept()
      await first.sees('"usage"')
      const second = kept()
      await second.sees('"usage"')
      const { address } = succeed()
      await address
      first.send(buildKept(server, key))
      await first.sees('Connection: close')
      // Spent: three times 0.015 USD, and a call may cost 0.06.
      second.send(buildKept(server, key))
      await second.sees('402 Payment Required')
      expect(await server.process.exited).toBe(0)
      expectCharged(3)
    },
  )

  /** Asks under an idempotency key. */
  const askOnce = (name: string, fields: object = {}) =>
    sendChat(server, { max_tokens: 10, ...fields }, { headers: { 'idempotency-key': name } })

  onLinux('hands over the calls under idempotency keys, ended or not', async () => {
    upstream.plan(
      [completion('Hello')],
      [
        sseHead(),
        delta('Hello'),
        { wait: 'rest' },
        delta('you'),
        finish('stop', usage(10, 5)),
        done(),
      ],
    )
    const ended = await askOnce('ended').outcome()
    const running = askOnce('running', { stream: true })
    await running.sees('Hello')
    await succeed().address
    const replayed = await askOnce('ended').outcome()
    expect([replayed.body, replayed.headers['idempotency-replayed']]).toEqual([ended.body, 'true'])
    expect((await askOnce('running', { stream: true }).outcome()).status).toBe(409)
    expect((await askOnce('ended', { max_tokens: 11 }).outcome()).status).toBe(422)
    upstream.open('rest')
    const whole = await running.outcome()
    expect(await server.process.exited).toBe(0)
    const again = await askOnce('running', { stream: true }).outcome()
    expect([again.body, again.headers['idempotency-replayed']]).toEqual([whole.body, 'true'])
    expect(upstream.hits.length).toBe(2)
  })

  onLinux('counts with the other how many calls of a key run at once', async () => {
    const { inference_key } = server
    const begin = (options = { key: inference_key }) =>
      sendChat(server, { max_tokens: 10, stream: true }, options)
    upstream.answer(() => [
      sseHead(),
      delta('Hello'),
      { wait: 'rest' },
      finish('stop', usage(1, 1)),
      done(),
    ])
    const calls = [begin(), begin()]
    for (const call of calls) await call.sees('Hello')
    await succeed().address
    const third = begin()
    await third.sees('Hello')
    const refused = await begin().outcome()
    expect([refused.status, refused.body]).toEqual([429, expect.stringContaining('concurrent')])
    expect(await begin({ key }).sees('Hello')).toBeUndefined()
    upstream.open('rest')
    for (const call of [...calls, third]) expect((await call.outcome()).complete).toBe(true)
    expect((await begin().outcome()).status).toBe(200)
  })

  onLinux('is recovered by the other when it is killed', async () => {
    const call = await beginStream()
    const { address, child } = succeed()
    await address
    await server.kill()
    expect((await call.outcome()).complete).toBe(false)
    await waitUntil(() => listHeldCalls(server.data).length === 0)
    await waitUntil(() => listSegments(server.data, LOG_BEFORE).length === 0)
    const { ledger, recorded, counted, calls } = readBooks(server.data, key)
    expect([calls, recorded, counted]).toEqual([1, ledger, ledger])
    expect(ledger).toBeGreaterThan(0)
    await waitUntil(async () => (await askWhole()) === 200)
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
    expect(await findFaults(server.data)).toBeNull()
  })

  onLinux(
    'finishes its answers when the other is killed, and the next start charges them',
    async () => {
      const call = await beginStream()
      const { address, child } = succeed()
      await address
      child.kill('SIGKILL')
      await child.exited
      const restarted = await restart()
      // What it may cost is held meanwhile.
      const refused = await sendChat(restarted, { max_tokens: 50 }, { key }).outcome()
      expect(refused.status).toBe(402)
      upstream.open('rest')
      expect((await call.outcome()).body).toContain('you')
      expect(await server.process.exited).toBe(1)
      await waitUntil(() => readBooks(server.data, key).calls === 1)
      await waitUntil(() => listSegments(server.data, LOG_BEFORE).length === 0)
      expectCharged(1)
      expect((await restarted.stop()).code).toBe(0)
      expect(await findFaults(server.data)).toBeNull()
    },
  )

  onLinux('goes on when the other dies with its sockets, or with its data directory', async () => {
    const call = await beginStream()
    for (const takesData of [false, true]) {
      const taken = await takeOver(server.data, { host: '127.0.0.1', port: 0 })
      if (takesData) expect((await taken?.takeData())?.holds.length).toBe(1)
      const waiting = ask({ stream: false, max_tokens: 10 })
      taken?.channel.close()
      taken?.close()
      expect((await waiting.outcome()).status).toBe(200)
    }
    await endStream(call)
    await waitUntil(() => listHeldCalls(server.data).length === 0)
    expectCharged(3)
    const { address } = succeed()
    expect(await address).toBe(server.url)
    expect(await server.process.exited).toBe(0)
    expectCharged(3)
  })

  onLinux('finishes its answers when the other has migrated the store and died', async () => {
    const call = await beginStream()
    const taken = await takeOver(server.data, { host: '127.0.0.1', port: 0 })
    await taken?.takeData()
    setSchema(server.data, MIGRATIONS.length + 1)
    taken?.channel.close()
    taken?.close()
    upstream.open('rest')
    expect((await call.outcome()).body).toContain('you')
    expect(await server.process.exited).toBe(1)
    setSchema(server.data, MIGRATIONS.length)
    const restarted = await restart()
    expectCharged(1)
    expect((await restarted.stop()).code).toBe(0)
  })

  onLinux('hands over to one at a time, and not before its own predecessor has ended', async () => {
    const call = await beginStream()
    const taken = await takeOver(server.data, { host: '127.0.0.1', port: 0 })
    const second = succeed()
    expect(await second.child.exited).toBe(4)
    expect(await second.stderr).toContain('Another takeover of this server is running')
    taken?.channel.close()
    taken?.close()
    const { address } = succeed()
    expect(await address).toBe(server.url)
    const third = succeed()
    expect(await third.child.exited).toBe(4)
    expect(await third.stderr).toContain('still finishes its answers')
    await endStream(call)
    expect(await server.process.exited).toBe(0)
    expect(await succeed().address).toBe(server.url)
  })

  onLinux('is not taken over at another address', async () => {
    const { child, stderr } = succeed(['--port', '1'])
    expect(await child.exited).toBe(4)
    expect(await stderr).toContain(`listens at ${server.url}, this one would at http://127.0.0.1:1`)
    expect(await askHealth(server.url)).toBe(200)
  })
})

describe('a takeover', () => {
  const root = mkdtempSync(join(tmpdir(), 'gateway-takeover-'))
  afterAll(() => rmSync(root, { recursive: true, force: true }))

  onLinux('where nobody runs is a start', async () => {
    const { child, address } = startSuccessor(root)
    expect(await askHealth(await address)).toBe(200)
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
  })

  async function* refuseTakeover(): AsyncGenerator<string[]> {
    yield [JSON.stringify({ error: { message: 'Not now' } })]
  }

  onLinux.each([
    ['knows none', () => undefined, '(version 0.0.9, pid 7) knows no handover: stop it'],
    ['refuses', refuseTakeover, 'Not now'],
  ])('of a server that %s is refused with a sentence', async (_, answer, message) => {
    const status = { url: 'http://127.0.0.1:8080', version: '0.0.9', pid: 7 }
    const silence = serveStatus(root, { describe: () => JSON.stringify(status), answer })
    try {
      const { child, stderr } = startSuccessor(root)
      expect(await child.exited).toBe(4)
      expect(await stderr).toContain(message)
    } finally {
      silence()
    }
  })
})

const askHealth = async (url: string) => (await fetch(`${url}/health`, { keepalive: false })).status

function setSchema(data: string, version: number): void {
  const db = openDatabase(data)
  db.run(`pragma user_version = ${version}`)
  db.close()
}

/** Builds a request that leaves its connection open. */
function buildKept({ url }: Server, key: string): string {
  const body = JSON.stringify({
    ...{ model: 'acme/small', max_tokens: 50 },
    messages: [{ role: 'user', content: 'Hi' }],
  })
  const head = [
    'POST /api/v1/chat/completions HTTP/1.1',
    `host: ${new URL(url).host}`,
    `authorization: Bearer ${key}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}
