import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PROGRAM, runGateway } from '../support/server.ts'
import { openTerminal } from '../support/terminal.ts'
import { json, startUpstream, status, stream, type Upstream } from '../support/upstream.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-setup-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const SECRET = 'sk-canary-0123456789'
const KEYS = /gw-v1-[0-9a-f]{72}/g

let upstream: Upstream
let cwd: string
beforeEach(async () => {
  cwd = mkdtempSync(join(directory, 'd-'))
  upstream = await startUpstream()
  upstream.answer(({ headers, path }) => {
    if (headers.authorization !== `Bearer ${SECRET}`) return status(401, 'Wrong key')
    return path.endsWith('/models') ? json({ data: [] }) : stream(['Welcome ', 'aboard.'])
  })
})
afterEach(() => upstream.close())

const data = () => join(cwd, 'gateway-data')
const read = (name: string) => readFileSync(join(data(), name), 'utf8')

describe('gateway setup on a terminal', () => {
  test('asks for a provider and its key without echo, until it is right, and calls a model', async () => {
    const terminal = openTerminal(
      [...PROGRAM, 'setup', '--base-url', upstream.url, '--model', 'openai/gpt-4o-mini'],
      { cwd, cols: 200, rows: 50, env: { OPENAI_API_KEY: '' } },
    )
    const answer = async (question: string, typed: string) => {
      await terminal.see(question)
      terminal.forget()
      terminal.type(`${typed}\r`)
    }
    await answer('Which provider? [openai]', 'opneai')
    await answer('did you mean openai?', '')
    await answer('API key of OpenAI: ', 'sk-canary-wrong')
    await answer('API key of OpenAI: ', `x\u007f${SECRET}`)
    await terminal.see('Welcome aboard.')
    expect(await terminal.child.exited).toBe(0)
    const shown = Bun.stripANSI(terminal.written)
    expect(shown).not.toContain('canary')
    expect(shown.match(KEYS)).toHaveLength(2)
    expect(shown).toContain('gateway serve')
    expect(shown).toMatch(/tokens in, \d+ out/)
    expect(read('openai.key')).toBe(`${SECRET}\n`)
    expect(statSync(join(data(), 'openai.key')).mode & 0o777).toBe(0o600)
    expect(upstream.hits.filter(({ path }) => path.endsWith('/chat/completions'))).toHaveLength(1)
  })

  test('is left by ctrl-c before anything is written, with the terminal as it was', async () => {
    const terminal = openTerminal(['sh', '-c', `${PROGRAM.join(' ')} setup; stty -a; echo DONE`], {
      cwd,
      env: { OPENAI_API_KEY: '' },
    })
    await terminal.see('Which provider?')
    terminal.type('openai\r')
    await terminal.see('API key of OpenAI: ')
    terminal.type('\u0003')
    await terminal.see('DONE')
    expect(Bun.stripANSI(terminal.written)).toMatch(/[^-]icanon[\s\S]*[^-]echo /)
    expect(existsSync(data())).toBe(false)
  })
})

describe('gateway setup without a terminal', () => {
  const setup = (args: string[], more: { stdin?: string; env?: Record<string, string> } = {}) =>
    runGateway(['setup', '--base-url', upstream.url, ...args], { cwd, ...more })

  test('reads the key from stdin, and goes on where it has stopped', async () => {
    const first = await setup(['--provider', 'openai', '--no-call'], { stdin: SECRET })
    expect([first.code, first.stdout.match(KEYS)?.length]).toEqual([0, 2])
    const again = await runGateway(['setup', '--model', 'openai/gpt-4o-mini'], { cwd })
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('Welcome aboard.') })
    expect(again.stderr).toContain('gateway.yaml is there already, and is kept')
    expect(again.stderr).toContain('has API keys already')
    const other = await setup(['--provider', 'openai'], { stdin: SECRET })
    expect([other.code, other.stderr]).toEqual([4, expect.stringContaining('exists already')])
  })

  test('says what it needs, and writes nothing where the key is refused', async () => {
    const nobody = await setup([], { env: { OPENAI_API_KEY: '' } })
    expect([nobody.code, nobody.stderr]).toEqual([
      2,
      'gateway: --provider: expected one, as there is no terminal to ask on\n',
    ])
    const refused = await setup(['--provider', 'openai'], { stdin: 'sk-wrong' })
    expect([refused.code, existsSync(data())]).toEqual([5, false])
    expect((await setup(['--provider', 'nobody'], { stdin: SECRET })).code).toBe(3)
  })

  test('goes on where the provider does not answer, and says what is left to do', async () => {
    const nobody = ['--base-url', 'http://127.0.0.1:1/v1']
    const args = ['--provider', 'openai', '--model', 'openai/gpt-4o-mini', ...nobody]
    const { code, stdout, stderr } = await setup(args, { stdin: SECRET })
    expect([code, stdout.match(KEYS)?.length]).toEqual([0, 2])
    expect(stderr).toContain('openai: the connection failed: ')
    expect(stderr).toMatch(/^3\. .*: gateway try openai\/gpt-4o-mini Hello asks again$/m)
    expect(stdout).toContain('gateway serve serves the API')
    expect(read('openai.key')).toBe(`${SECRET}\n`)
  })

  test('writes a config unchecked where it is told to, as it says itself', async () => {
    const args = ['--provider', 'openai', '--no-call']
    expect((await setup(args, { stdin: 'sk-wrong' })).stderr).toContain('--no-check')
    const { code, stderr } = await setup([...args, '--no-check'], { stdin: 'sk-wrong' })
    expect([code, stderr]).toEqual([0, expect.stringContaining('openai: not checked\n')])
    expect(read('openai.key')).toBe('sk-wrong\n')
  })
})
