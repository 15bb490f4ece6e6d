import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'
import { type CommandResult, runGateway, type Server, startServer } from '../support/server.ts'
import {
  chunkedEnd,
  event,
  sseHead,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

/** The config names where the key is: only a command that calls a provider needs it. */
const VARIABLE = '$' + '{TRY_TEST_KEY}'

let upstream: Upstream
let data: string

beforeAll(async () => {
  upstream = await startUpstream()
  data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const prices = { prompt: 1, completion: 2 }
  const endpoints = [{ provider: 'local', model: 'up', usd_per_million_tokens: prices }]
  const config = {
    providers: {
      local: { protocol: 'openai-chat', base_url: upstream.url, api_key: VARIABLE },
    },
    models: [{ id: 'acme/small', endpoints }],
  }
  writeFileSync(join(data, 'gateway.yaml'), JSON.stringify(config))
  await runCommand(['init', '--data', data], { cwd: data })
})

afterAll(async () => {
  await upstream.close()
  rmSync(data, { recursive: true })
})

beforeEach(() => {
  upstream.hits.length = 0
})

const tryModel = (...args: string[]): Promise<CommandResult> =>
  runCommand(['try', ...args, '--data', data], { cwd: data, env: { TRY_TEST_KEY: 'k' } })

const chunk = (content: string, more: object = {}) =>
  event({ id: 'c', choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more })
const last = event({
  id: 'c',
  choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1_000, completion_tokens: 500, total_tokens: 1_500 },
})
const DONE = event('[DONE]')

describe('gateway try', () => {
  test('prints the text as it is, and its cost beside it', async () => {
    upstream.plan([sseHead(), chunk('Two\n'), chunk('lines\t\u001b[2J'), last, DONE, chunkedEnd()])
    const { code, stdout, stderr } = await tryModel('acme/small', 'Hi')
    expect([code, stdout]).toEqual([0, 'Two\nlines\t\ufffd[2J\n'])
    expect(stderr).toBe('1000 tokens in, 500 out, $0.002\n')
    expect(upstream.hits[0]?.headers.authorization).toBe('Bearer k')
    expect(upstream.hits[0]?.json).toMatchObject({
      model: 'up',
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
    })
  })

  test('ends where the reader of its text has gone', async () => {
    const main = join(import.meta.dir, '../../src/cli/main.ts')
    const child = Bun.spawn(
      [process.execPath, main, 'try', 'sandbox/echo', 'Hi there', '--data', data],
      { stdout: 'pipe', stderr: 'pipe', env: { ...process.env, TRY_TEST_KEY: 'k' } },
    )
    await child.stdout.cancel()
    const killer = setTimeout(() => child.kill('SIGKILL'), 20_000)
    const [complaint, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
    clearTimeout(killer)
    expect([complaint, code]).toEqual(['4 tokens in, 2 out, $0\n', 0])
  })

  test('records the call', async () => {
    upstream.plan([sseHead(), chunk('Hi'), last, DONE, chunkedEnd()])
    await tryModel('acme/small', 'Hi')
    const args = ['generations', 'list', '--limit', '1', '--json', '--data', data]
    const { stdout } = await runCommand(args, { cwd: data })
    expect(JSON.parse(stdout).data[0]).toMatchObject({ model: 'acme/small' })
  })

  test('fails where the answer breaks off, after what has come', async () => {
    upstream.plan([sseHead(), chunk('Half'), chunkedEnd()])
    const { code, stdout, stderr } = await tryModel('acme/small', 'Hi')
    expect([code, stdout]).toEqual([1, 'Half\n'])
    expect(stderr).toStartWith('gateway: ')
  })

  test('fails where the provider does, and says why', async () => {
    upstream.plan(status(401, 'Incorrect API key provided'))
    const { code, stderr } = await tryModel('acme/small', 'Hi')
    expect(code).toBe(1)
    expect(stderr).toContain('Provider returned error')
  })

  test.each<[string[], number, RegExp]>([
    [['acme/unknown', 'Hi'], 2, /acme\/unknown/],
    [['acme/small', ''], 2, /text: expected some words/],
    [['acme/small', 'Hi', '--voice', 'ann'], 2, /--voice: expected --speech/],
    [['acme/small', 'Hi', '--force'], 2, /--force: expected/],
    [['acme/small', 'Hi', '--image', 'a.gif'], 2, /\.png, \.jpg/],
    [['acme/small', 'Hi', '--speech', 'a'], 2, /\.mp3, \.wav/],
    [['acme/small', 'Hi', '--image', 'nowhere/a.png'], 3, /no directory nowhere/],
    [['acme/small', 'Hi', '--image', 'a.png'], 2, /acme\/small gives text/],
    [['sandbox/image', 'Hi', '--image', 'a.png', '--speech', 'a.mp3'], 2, /cannot be used with/],
    [['acme/small'], 2, /missing required argument/],
  ])('refuses %j', async (args, exit, message) => {
    const { code, stderr } = await tryModel(...args)
    expect([code, stderr]).toEqual([exit, expect.stringMatching(message)])
    expect(upstream.hits).toEqual([])
    expect(existsSync(join(data, 'a.png'))).toBe(false)
  })

  test.each(['png', 'jpeg', 'webp'] as const)('draws into a file of %s', async format => {
    const path = join(data, `cat.${format}`)
    const { code, stdout, stderr } = await tryModel('sandbox/image', 'A cat', '--image', path)
    expect([code, stdout, stderr]).toEqual([0, '', expect.stringMatching(/^Wrote .*\$0\n$/)])
    const metadata = await new Bun.Image(readFileSync(path)).metadata()
    expect(metadata.format).toBe(format)
  })

  test('replaces no file unless it is told to', async () => {
    const path = join(data, 'kept.png')
    writeFileSync(path, 'mine')
    const refused = await tryModel('sandbox/image', 'A cat', '--image', path)
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringMatching(/--force replaces/)])
    expect(readFileSync(path, 'utf8')).toBe('mine')
    const replaced = await tryModel('sandbox/image', 'A cat', '--image', path, '--force')
    expect(replaced.code).toBe(0)
    expect(readFileSync(path).subarray(1, 4).toString()).toBe('PNG')
  })

  test('a directory is no file, whatever is forced', async () => {
    const path = join(mkdtempSync(join(data, 'd-')), '..')
    const { code } = await tryModel('sandbox/image', 'A', '--image', `${path}/../x.png/`, '--force')
    expect(code).not.toBe(0)
  })

  test('speaks into a file', async () => {
    const path = join(data, 'hello.wav')
    const { code, stderr } = await tryModel('sandbox/speech', 'Hello', '--speech', path)
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^Wrote /)])
    expect(readFileSync(path).subarray(0, 4).toString()).toBe('RIFF')
  })

  test('makes the default data directory, which records the call', async () => {
    const cwd = mkdtempSync(join(data, 'new-'))
    const asked = await runCommand(['try', 'sandbox/echo', 'Hi'], { cwd })
    expect([asked.code, asked.stdout]).toEqual([0, 'Hi\n'])
    const listed = await runCommand(['generations', 'list', '--field', 'model'], { cwd })
    expect(listed.stdout).toBe('sandbox/echo\n')
    expect((await runCommand(['init'], { cwd })).code).toBe(0)
  })

  test('ends with 3 where there is no data in the directory that is named', async () => {
    const args = ['try', 'sandbox/echo', 'Hi', '--data', join(data, 'none')]
    expect((await runCommand(args, { cwd: data })).code).toBe(3)
  })
})

describe('gateway try, while a server runs', () => {
  let server: Server

  beforeAll(async () => {
    server = await startServer({})
  })
  afterAll(() => server[Symbol.asyncDispose]())

  test('has that answer, with a key that is gone afterwards', async () => {
    const run = (...args: string[]) => runGateway([...args, '--data', server.data])
    const said = await run('try', 'sandbox/echo', 'Hello there')
    expect([said.code, said.stdout]).toEqual([0, 'Hello there\n'])
    const path = join(server.data, 'cat.png')
    const drawn = await run('try', 'sandbox/image', 'A cat', '--image', path)
    expect([drawn.code, readFileSync(path).subarray(1, 4).toString()]).toEqual([0, 'PNG'])
    const refused = await run('try', 'acme/unknown', 'Hi')
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringMatching(/acme\/unknown/)])
    const keys = await run('keys', 'list', '--json')
    expect(keys.stdout).not.toContain('gateway try')
  })
})
