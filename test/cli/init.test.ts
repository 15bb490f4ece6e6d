import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SCHEMA_LINE } from '../../src/config/editor-schema.ts'
import { PROGRAM, runGateway } from '../support/server.ts'
import { json, startUpstream, status, type Upstream } from '../support/upstream.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const SECRET = 'sk-canary-0123456789'
const KEYS = /gw-v1-[0-9a-f]{72}/g

let upstream: Upstream
let cwd: string
beforeEach(async () => {
  cwd = mkdtempSync(join(directory, 'd-'))
  upstream = await startUpstream()
  upstream.answer(({ headers }) =>
    headers.authorization === `Bearer ${SECRET}` ? [json({ data: [] })] : status(401, 'Wrong key'),
  )
})
afterEach(() => upstream.close())

const init = (args: string[], more: { stdin?: string; env?: Record<string, string> } = {}) =>
  runGateway(['init', ...args], { cwd, ...more })
const initOpenai = (more: { stdin?: string; env?: Record<string, string> } = {}) =>
  init(['--provider', 'openai', '--base-url', upstream.url], more)

const data = () => join(cwd, 'gateway-data')
const config = () => readFileSync(join(data(), 'gateway.yaml'), 'utf8')
const modeOf = (file: string) => statSync(join(data(), file)).mode & 0o777

describe('init --provider', () => {
  test('reads the key from stdin, checks it, and writes a config without it', async () => {
    const { code, stdout, stderr } = await initOpenai({ stdin: `${SECRET}\n` })
    expect([code, stdout.match(KEYS)?.length]).toEqual([0, 2])
    expect(stderr).toContain('openai: the credential works\n')
    expect(upstream.hits.map(({ path }) => path)).toContain('/v1/models')
    expect(`${stdout}${stderr}${config()}`).not.toContain('canary')
    expect(readFileSync(join(data(), 'openai.key'), 'utf8')).toBe(`${SECRET}\n`)
    expect([modeOf('openai.key'), modeOf('gateway.yaml')]).toEqual([0o600, 0o600])
    expect(config()).toStartWith(`${SCHEMA_LINE}\n`)
    expect(JSON.parse(readFileSync(join(data(), 'gateway.schema.json'), 'utf8')).title).toBe(
      'gateway.yaml',
    )
    expect(Bun.YAML.parse(config())).toEqual({
      providers: { openai: { api_key: `\${file:openai.key}`, base_url: upstream.url } },
      default_model: expect.stringMatching(/^openai\//),
    })
  })

  test('says in its help which files it writes', async () => {
    await initOpenai({ stdin: SECRET })
    const { stdout } = await init(['--help'])
    for (const file of readdirSync(data()))
      expect(stdout).toContain(file.replace('openai.key', '<provider>.key'))
  })

  test('writes a config that is taken, and whose key is sent', async () => {
    await initOpenai({ stdin: SECRET })
    expect((await runGateway(['config', 'check'], { cwd })).code).toBe(0)
    const { stdout } = await runGateway(['providers', 'check', '--json'], { cwd })
    expect(JSON.parse(stdout).data).toMatchObject([{ provider: 'openai', ok: true }])
  })

  test('names the variable that has the key, and asks for none', async () => {
    const env = { OPENAI_API_KEY: SECRET, OPENAI_BASE_URL: upstream.url }
    expect((await init(['--provider', 'openai'], { env })).code).toBe(0)
    expect(Bun.YAML.parse(config())).toMatchObject({
      providers: { openai: { api_key: `\${OPENAI_API_KEY}`, base_url: upstream.url } },
    })
    expect(existsSync(join(data(), 'openai.key'))).toBe(false)
  })

  test('is not needed where the environment has a key: calls that name no model get one', async () => {
    const env = { OPENAI_API_KEY: SECRET, OPENAI_BASE_URL: upstream.url }
    const { code, stdout, stderr } = await init([], { env })
    expect([code, stdout.match(KEYS)?.length]).toEqual([0, 2])
    expect(stderr).toContain('OPENAI_API_KEY: openai\n')
    expect(Bun.YAML.parse(config())).toMatchObject({
      providers: { openai: { api_key: `\${OPENAI_API_KEY}` } },
      default_model: expect.stringMatching(/^openai\//),
    })
  })

  test('a key of the environment that is refused keeps nobody from the first keys', async () => {
    const env = { OPENAI_API_KEY: 'sk-another', OPENAI_BASE_URL: upstream.url }
    const { code, stdout, stderr } = await init([], { env })
    expect([code, stdout.match(KEYS)?.length]).toEqual([0, 2])
    expect(stderr).toContain('the credential is refused')
    expect(existsSync(join(data(), 'gateway.yaml'))).toBe(false)
  })

  test('a config that exists stays, whatever the environment has', async () => {
    await Bun.write(join(cwd, 'gateway.yaml'), '{}')
    const env = { OPENAI_API_KEY: SECRET, OPENAI_BASE_URL: upstream.url }
    expect(await init([], { env })).toMatchObject({ code: 0, stderr: '' })
    expect(existsSync(join(data(), 'gateway.yaml'))).toBe(false)
  })

  test('asks on a terminal, and shows nothing of what is typed', async () => {
    let printed = ''
    let isTyped = false
    const child = Bun.spawn(
      [...PROGRAM, 'init', '--provider', 'openai', '--base-url', upstream.url],
      {
        cwd,
        terminal: {
          cols: 200,
          rows: 50,
          data: (terminal, bytes) => {
            printed += Buffer.from(bytes).toString()
            if (isTyped || !printed.includes('API key of OpenAI: ')) return
            isTyped = true
            terminal.write(`x\u007f${SECRET}\r`)
          },
        },
      },
    )
    expect([await child.exited, printed.match(KEYS)?.length]).toEqual([0, 2])
    child.terminal?.close()
    expect(printed).not.toContain('canary')
    expect(readFileSync(join(data(), 'openai.key'), 'utf8')).toBe(`${SECRET}\n`)
  })

  test('writes nothing where the key is refused or missing, unless it may not be checked', async () => {
    const refused = await initOpenai({ stdin: 'sk-another' })
    expect([refused.code, refused.stdout, readdirSync(cwd)]).toEqual([5, '', []])
    expect(refused.stderr).toMatch(/^gateway: openai: the credential is refused; [^\n]+\n$/)
    expect([(await initOpenai({ stdin: ' \n' })).code, readdirSync(cwd)]).toEqual([2, []])
    expect([(await initOpenai({ stdin: 'a\nb' })).code, readdirSync(cwd)]).toEqual([2, []])
    const args = ['--provider', 'openai', '--no-check', '--base-url', upstream.url]
    const { code, stderr } = await init(args, { stdin: 'sk-another' })
    expect([code, stderr]).toEqual([0, expect.stringContaining('openai: not checked\n')])
  })

  test('overwrites no config, and adds one to a directory that has keys', async () => {
    await init([])
    const added = await initOpenai({ stdin: SECRET })
    expect([added.code, added.stdout.match(KEYS)]).toEqual([0, null])
    const again = await initOpenai({ stdin: SECRET })
    expect([again.code, again.stderr]).toEqual([4, expect.stringContaining('gateway.yaml exists')])
    rmSync(join(data(), 'gateway.yaml'))
    await Bun.write(join(cwd, 'gateway.yaml'), '{}')
    expect((await initOpenai({ stdin: SECRET })).code).toBe(4)
  })

  test('writes the config where --config says, with the key in the data directory', async () => {
    const file = join(cwd, 'conf', 'mine.yaml')
    const args = ['--provider', 'openai', '--base-url', upstream.url, '--config', file, '--json']
    const { code, stdout } = await init(args, { stdin: SECRET })
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      {
        workspace_id: expect.any(String),
        management_key: expect.any(String),
        inference_key: expect.any(String),
        config: file,
        model: expect.stringMatching(/^openai\//),
      },
    ])
    expect((await runGateway(['providers', 'check', '--config', file], { cwd })).code).toBe(0)
  })

  test.each<[string, string[], number, string?]>([
    ['an unknown provider', ['--provider', 'nobody'], 3],
    ['a provider whose name is misspelt', ['--provider', 'opneai'], 3, 'did you mean openai?'],
    ['the name of its models', ['--provider', 'gemini'], 3, 'did you mean google?'],
    ['a provider whose account is a file', ['--provider', 'vertex'], 2],
    ['a provider without an address of its own', ['--provider', 'azure'], 2],
    ['an address that is none', ['--provider', 'openai', '--base-url', 'somewhere'], 2],
    ['an address without a provider', ['--base-url', 'http://127.0.0.1:1'], 2],
  ])('refuses %s', async (_, args, code, message = '') => {
    const refused = await init(args, { stdin: SECRET })
    expect([refused.code, refused.stdout, readdirSync(cwd)]).toEqual([code, '', []])
    expect(refused.stderr).toMatch(/^gateway: [^\n]+\n$/)
    expect(refused.stderr).not.toContain('canary')
    expect(refused.stderr).toContain(message)
  })
})
