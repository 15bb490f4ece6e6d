import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { appendFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  buildRoutesConfig,
  parseStream,
  readMetric,
  readText,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { LONG } from '../support/random.ts'
import { PROGRAM, runGateway, type Server, startServer } from '../support/server.ts'
import {
  completion,
  delta,
  ending,
  sseHead,
  startUpstream,
  stream,
  type Upstream,
} from '../support/upstream.ts'

const SECRET = 'sk-in-the-file-0123456789'
const VARIABLE = 'sk-in-the-environment-0123456789'

let first: Upstream
let second: Upstream
let server: Server

beforeAll(async () => {
  ;[first, second] = await Promise.all([startUpstream(), startUpstream()])
})
afterAll(() => Promise.all([first.close(), second.close()]))

beforeEach(async () => {
  first.answer(({ json }) =>
    (json as { stream?: boolean }).stream ? stream(['first']) : completion('first'),
  )
  second.answer(({ json }) =>
    (json as { stream?: boolean }).stream ? stream(['second']) : completion('second'),
  )
  server = await startServer({ config: configAt(first), env: { RELOAD_TEST_KEY: VARIABLE } })
})
afterEach(() => server[Symbol.asyncDispose]())

/** A config with a provider for `acme/small` and with two secrets. */
const configAt = ({ url }: Upstream, more: object = {}) => {
  const config = buildRoutesConfig({ 'acme/small': { local: url } })
  const providers = {
    local: { ...config.providers.local, api_key: SECRET },
    openai: { api_key: `\${RELOAD_TEST_KEY}` },
  }
  return { ...config, providers, ...more }
}

const HELLO = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }
const file = () => join(server.data, 'gateway.yaml')
const write = (config: object | string) =>
  writeFileSync(file(), typeof config === 'string' ? config : JSON.stringify(config))
const hangUp = () => server.process.kill('SIGHUP')

const answer = async () => readText(await sendChat(server).outcome())
const isServedBy = (name: string) => waitUntil(async () => (await answer()) === name)
const isRejected = (is: boolean) =>
  waitUntil(async () => (await readMetric(server, 'gateway_config_rejected')) === Number(is))
const lastApplied = () => readMetric(server, 'gateway_config_applied_timestamp_seconds')
const health = async () => (await fetch(`${server.url}/health`)).json()

interface Line {
  event: string
  path?: string
  reason?: string
  changed?: string[]
  settings?: string[]
}

/** Stops the server, and returns the log lines about its config. */
async function told(): Promise<Line[]> {
  const { code, stderr } = await server.stop()
  expect(code).toBe(0)
  expect(stderr).not.toContain('sk-')
  const lines = stderr
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as Line)
  expect(lines.filter(({ event }) => event === 'bug')).toEqual([])
  expect(lines.filter(({ event }) => event === 'config.read')).toHaveLength(1)
  return lines.filter(({ event }) => event.startsWith('config.') && event !== 'config.read')
}

describe('a config that changes while the gateway runs', () => {
  test('applies to the next call, however the file was written', async () => {
    expect(await answer()).toBe('first')
    write(configAt(second))
    await isServedBy('second')
    writeFileSync(`${file()}.new`, JSON.stringify(configAt(first)))
    renameSync(`${file()}.new`, file())
    await isServedBy('first')
    rmSync(file())
    write(configAt(second))
    await isServedBy('second')
    expect((await told()).map(({ event, changed }) => [event, changed])).toEqual([
      ['config.applied', ['providers.local']],
      ['config.applied', ['providers.local']],
      ['config.applied', ['providers.local']],
    ])
  })

  test('is read at a hangup, changed or not, and a hundred hangups end nothing', async () => {
    const before = await lastApplied()
    hangUp()
    await waitUntil(async () => (await lastApplied()) > before)
    write(configAt(second))
    for (let i = 0; i < 100; i++) hangUp()
    await isServedBy('second')
    const lines = await told()
    expect(lines.every(({ event }) => event === 'config.applied')).toBe(true)
    expect([lines[0]?.changed, lines[1]?.changed]).toEqual([[], ['providers.local']])
  })

  test('reports the settings that need a restart, and applies the others', async () => {
    write(
      configAt(second, {
        server: { port: 1, site_url: 'https://example.com' },
        storage: { durability: 'full' },
      }),
    )
    await isServedBy('second')
    expect(await told()).toMatchObject([
      { event: 'config.applied', changed: ['providers.local'] },
      {
        event: 'config.needs_restart',
        settings: ['server.port', 'server.site_url', 'storage.durability'],
        consequence: 'they keep their values until a restart',
      } as Line,
    ])
  })

  test('does not affect a running stream, even without its model and provider', async () => {
    first.answer(() => [sseHead(), delta('whole '), { wait: 'changed' }, delta('answer'), ending()])
    const running = sendChat(server, { stream: true })
    await first.reached('changed')
    const before = await lastApplied()
    write({ default_model: 'sandbox/echo' })
    hangUp()
    await waitUntil(async () => (await lastApplied()) > before)
    expect((await sendChat(server).outcome()).status).toBe(400)
    first.open('changed')
    const { text, errors, dones } = parseStream((await running.outcome()).body)
    expect([text, errors, dones]).toEqual(['whole answer', [], 1])
  })
})

describe('O-11 a wrong config', () => {
  const WRONG: [what: string, text: () => string, path: string | undefined, reason: string][] = [
    [
      'broken YAML',
      () => JSON.stringify(configAt(second)).slice(0, -9),
      undefined,
      'The config file is not valid YAML: YAML Parse error',
    ],
    [
      'a secret in the wrong form',
      () => JSON.stringify({ providers: { local: { api_key: [SECRET] } } }),
      'providers.local.api_key',
      'providers.local.api_key: expected string in the form visible-ascii, found an array',
    ],
    [
      'a secret in the place of a name',
      () => `providers: { openai: { ${SECRET} } }`,
      'providers.openai',
      'providers.openai: expected only fields that there are, found null',
    ],
    [
      'a variable that is not set',
      () => `providers: { openai: { api_key: "\${RELOAD_TEST_NO_KEY}" } }`,
      'providers.openai.api_key',
      'providers.openai.api_key: expected the environment variable RELOAD_TEST_NO_KEY, found nothing',
    ],
    [
      'a secret with a line break',
      () => JSON.stringify({ providers: { openai: { api_key: `${SECRET}\n` } } }),
      'providers.openai.api_key',
      'providers.openai.api_key: expected string in the form visible-ascii, found a string',
    ],
    [
      'a model of an unknown provider',
      () => JSON.stringify({ ...configAt(second), providers: {} }),
      'models.0.endpoints.0.provider',
      'models.0.endpoints.0.provider: expected one of sandbox, found local',
    ],
    ['an empty file', () => '', undefined, 'expected settings, found an empty file'],
  ]

  test('changes nothing and raises an alarm without secrets until it is corrected', async () => {
    for (const [, text] of WRONG) {
      write(text())
      hangUp()
      await isRejected(true)
      expect(await health()).toEqual({ status: 'ok', config: 'rejected' })
      expect(await answer()).toBe('first')
      write(configAt(first))
      hangUp()
      await isRejected(false)
      expect(await health()).toEqual({ status: 'ok' })
    }
    const lines = (await told()).filter(({ event }) => event === 'config.rejected')
    expect(lines.map(({ path }) => path)).toEqual(WRONG.map(([, , path]) => path))
    for (const [i, [, , , reason]] of WRONG.entries())
      expect((lines[i]?.reason ?? '').replace(/(?<=yaml):\d+:\d+/, '')).toStartWith(
        `${file()}: ${reason}`,
      )
  }, 60_000)

  test('is reported in the words of `config check`, which fails with 2', async () => {
    const [, , [, text]] = WRONG as [unknown, unknown, (typeof WRONG)[number]]
    write(text())
    await isRejected(true)
    const checked = await runGateway(['config', 'check', '--data', server.data])
    expect([checked.code, checked.stderr]).toEqual([
      2,
      `gateway: ${(await told()).at(-1)?.reason}\n`,
    ])
  })

  test('hinders nobody from stopping a key of the server that runs', async () => {
    write('providers: { local: 7 }')
    await isRejected(true)
    const run = (...args: string[]) => runGateway([...args, '--data', server.data])
    const made = await run('keys', 'create', '--name', 'leaked')
    expect([made.code, made.stderr]).toEqual([
      0,
      expect.stringContaining(
        `The config is wrong, and is not used here: ${file()}:1:14: providers.local: expected`,
      ),
    ])
    const key = made.stdout.trim()
    const ask = async () => (await server.fetch('/chat/completions', { key, json: HELLO })).status
    await waitUntil(async () => (await ask()) !== 401)
    expect((await run('keys', 'update', 'leaked', '--disable')).code).toBe(0)
    await waitUntil(async () => (await ask()) === 401)
    await server.stop()
    const later = await run('keys', 'update', 'leaked', '--enable')
    expect([later.code, later.stderr]).toEqual([2, expect.stringContaining('providers.local')])
  })

  test('that is deleted drops no provider', async () => {
    rmSync(file())
    await isRejected(true)
    expect(await answer()).toBe('first')
    write(configAt(second))
    await isServedBy('second')
    expect(await readMetric(server, 'gateway_config_rejected')).toBe(0)
  })

  test('that is still being written raises no alarm', async () => {
    const text = JSON.stringify(configAt(second), null, 1)
    const pieces = 6
    const length = Math.ceil(text.length / pieces)
    write('')
    for (let i = 0; i < pieces; i++) {
      appendFileSync(file(), text.slice(i * length, (i + 1) * length))
      expect(await readMetric(server, 'gateway_config_rejected')).toBe(0)
      expect(await answer()).toBe('first')
      await Bun.sleep(250)
    }
    await isServedBy('second')
    expect((await told()).map(({ event }) => event)).toEqual(['config.applied'])
  })
})

test('many changes under load, every tenth of them wrong, fail no call', async () => {
  const CHANGES = LONG ? 100 : 30
  let isOver = false
  const served: Record<string, number> = {}
  const call = async (body: object) => {
    const outcome = await sendChat(server, body).outcome()
    const name = outcome.status === 200 ? readText(outcome) : `${outcome.status} ${outcome.body}`
    served[name] = (served[name] ?? 0) + 1
  }
  const calling = Array.from({ length: 4 }, async (_, i) => {
    while (!isOver) await call({ stream: i % 2 === 0 })
  })
  for (let i = 1; i <= CHANGES; i++) {
    const before = await lastApplied()
    write(
      i % 10 === 0
        ? 'providers: { local: {'
        : configAt(i % 2 === 0 ? first : second, { service_name: `s${i}` }),
    )
    hangUp()
    await waitUntil(
      async () =>
        (await (i % 10 === 0 ? readMetric(server, 'gateway_config_rejected') : lastApplied())) >
        (i % 10 ? before : 0),
    )
  }
  isOver = true
  await Promise.all(calling)
  expect(Object.keys(served).sort()).toEqual(['first', 'second'])
  const events = (await told()).map(({ event }) => event)
  expect(events.filter(event => event === 'config.applied').length).toBeGreaterThanOrEqual(
    0.9 * CHANGES,
  )
  expect(events.filter(event => event === 'config.rejected').length).toBeGreaterThanOrEqual(
    CHANGES / 10,
  )
}, 60_000)

test('a hangup reloads the config while a terminal is open, and else ends the server', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  let printed = ''
  const data = (_: unknown, bytes: Uint8Array) => {
    printed += Buffer.from(bytes).toString()
  }
  const child = Bun.spawn([...PROGRAM, 'serve', '--port', '0'], {
    cwd,
    terminal: { cols: 200, rows: 50, data },
  })
  const isPrinted = (text: string) => waitUntil(async () => printed.includes(text))
  try {
    await isPrinted('listens on')
    child.kill('SIGHUP')
    await isPrinted('config.applied')
    child.terminal?.close()
    await waitUntil(async () => child.exitCode !== null)
    expect(child.exitCode).toBe(0)
  } finally {
    child.kill('SIGKILL')
    rmSync(cwd, { recursive: true, force: true })
  }
})
