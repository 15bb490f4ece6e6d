import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PROGRAM, runGateway, startServer } from '../support/server.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const emptyDirectory = () => mkdtempSync(join(directory, 'd-'))

/** A port that is free at this moment. */
function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = listener
  listener.stop(true)
  return port
}

interface Started {
  code: number
  /** The lines that it printed until it listened. */
  printed: string
  /** What it wrote to stderr. */
  logged: string
  port: number
}

/** Starts `serve` on a terminal, as a person does, until it listens, and stops it. */
async function startOnTerminal(cwd: string, args: string[] = []): Promise<string> {
  let printed = ''
  const { promise: listening, resolve } = Promise.withResolvers<void>()
  const data = (_: unknown, bytes: Uint8Array) => {
    printed += Buffer.from(bytes).toString()
    if (/(listens on|"listening")[^\n]*\n/.test(printed)) resolve()
  }
  const child = Bun.spawn([...PROGRAM, 'serve', '--port', '0', ...args], {
    cwd,
    terminal: { cols: 300, rows: 50, data },
  })
  await Promise.race([listening, child.exited])
  child.kill('SIGTERM')
  await child.exited
  child.terminal?.close()
  return printed.replaceAll('\r\n', '\n')
}

/** Starts `serve` in this directory until it listens, and stops it. */
async function started(
  cwd: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<Started> {
  const child = Bun.spawn([...PROGRAM, 'serve', ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const stderr = new Response(child.stderr).text()
  let printed = ''
  for await (const bytes of child.stdout) {
    printed += new TextDecoder().decode(bytes)
    if (/listens on .*\n|"listening".*\n/.test(printed)) break
  }
  child.kill('SIGTERM')
  const code = await child.exited
  const port = Number(/127\.0\.0\.1:(\d+)/.exec(printed)?.[1])
  return { code, printed, logged: await stderr, port }
}

const KEYS = /gw-v1-[0-9a-f]{72}/g

describe('serve', () => {
  test('prints its first two keys on the first start on a terminal, and only then', async () => {
    const cwd = emptyDirectory()
    const first = await startOnTerminal(cwd)
    const second = await startOnTerminal(cwd)
    // The inference key is also in the line that shows how to try it.
    expect(new Set(first.match(KEYS)).size).toBe(2)
    expect(first).toMatch(/curl -N http:\/\/127\.0\.0\.1:\d+\/api\/v1\/chat\/completions/)
    expect(second).not.toMatch(KEYS)
    expect(second).not.toContain('Try it')
  })

  test('makes no keys without a terminal, and says how to make one', async () => {
    const cwd = emptyDirectory()
    const text = await started(cwd, ['--port', '0'])
    const json = await started(cwd, ['--port', '0', '--log', 'json'])
    const onTerminal = await startOnTerminal(cwd, ['--log', 'json'])
    for (const printed of [text.printed, text.logged, json.printed, json.logged, onTerminal])
      expect(printed).not.toMatch(KEYS)
    expect(text.printed).toContain('There is no API key yet: gateway keys create --name me makes')
    expect((await runGateway(['keys', 'list', '--json'], { cwd })).stdout).toContain('"data": []')
    const key = (await runGateway(['keys', 'create', '--name', 'me'], { cwd })).stdout.trim()
    expect(key).toMatch(KEYS)
    const later = await started(cwd, ['--port', '0'])
    expect(later.printed).not.toContain('There is no API key yet')
  })

  test('says what runs, where its files are, and whom it can call', async () => {
    const cwd = emptyDirectory()
    const { version } = await Bun.file(join(import.meta.dir, '../../package.json')).json()
    const file = join(cwd, 'gateway.yaml')
    const env = { OPENAI_API_KEY: 'sk-secret', ANTHROPIC_API_KEY: 'sk-secret' }
    writeFileSync(
      file,
      '{ providers: { anthropic: { api_key: named } }, server: { console_host: "console:81" } }',
    )
    const { printed, port } = await started(cwd, ['--port', '0'], env)
    expect(printed.split('\n')).toEqual([
      `gateway ${version}`,
      `  data       ${join(cwd, 'gateway-data')} (new)`,
      `  config     ${file}`,
      '  providers  openai (OPENAI_API_KEY), anthropic, sandbox (built in, free, needs no key)',
      '  console    http://console:81/console',
      `  docs       http://127.0.0.1:${port}/docs`,
      'There is no API key yet: gateway keys create --name me makes one',
      'Try it:',
      expect.stringMatching(/^ {2}curl -N .* "Authorization: Bearer \$KEY" .*"openai\/[^"]+"/),
      `gateway listens on http://127.0.0.1:${port}`,
      '',
    ])
    const data = join(cwd, 'other')
    const other = await started(cwd, ['--port', '0', '--data', data], env)
    expect(other.printed).toContain(`  config     none: the defaults\n  not read   ${file}\n`)
    expect(other.printed).toContain(`  console    http://127.0.0.1:${other.port}/console\n`)
    expect(other.printed).toContain(`gateway keys create --name me --data ${data} makes one`)
    expect(`${printed}${other.printed}`).not.toContain('sk-secret')
    const byNpm = await started(cwd, ['--port', '0'], { npm_lifecycle_event: 'start' })
    expect(byNpm.printed).toContain('npm run --silent gateway -- keys create --name me makes one')
  })

  test('says which variable configures nothing, and why', async () => {
    const env = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'canary' }
    const { printed } = await started(emptyDirectory(), ['--port', '0'], env)
    expect(printed).toContain(
      '  ignored    AWS_ACCESS_KEY_ID: AWS_REGION or AWS_DEFAULT_REGION is missing\n',
    )
    const json = await started(emptyDirectory(), ['--port', '0', '--log', 'json'], env)
    expect(json.logged).toContain('"environment.ignored"')
    expect(`${printed}${json.printed}${json.logged}`).not.toContain('canary')
  })

  test('prints events as JSON on request, one per line', async () => {
    const { version } = await Bun.file(join(import.meta.dir, '../../package.json')).json()
    const cwd = emptyDirectory()
    const args = ['--port', '0', '--log', 'json']
    const env = { OPENAI_API_KEY: 'sk-secret' }
    const { printed, logged, port } = await started(cwd, args, env)
    const url = `http://127.0.0.1:${port}`
    expect(JSON.parse(printed)).toMatchObject({ event: 'listening', url })
    const events = logged
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(events.find(({ event }) => event === 'started')).toMatchObject({
      version,
      data: join(cwd, 'gateway-data'),
      config: null,
      providers: ['openai', 'sandbox'],
      environment: { openai: ['OPENAI_API_KEY'] },
      docs: `${url}/docs`,
    })
    expect(logged).not.toContain('sk-secret')
  })

  test('after init prints no keys', async () => {
    const cwd = emptyDirectory()
    await runGateway(['init'], { cwd })
    expect((await started(cwd, ['--port', '0'])).printed).not.toMatch(KEYS)
  })

  test('takes its port from the flag, then GATEWAY_PORT, then the config', async () => {
    const cwd = emptyDirectory()
    const [flag, variable, file] = [freePort(), freePort(), freePort()]
    writeFileSync(join(cwd, 'gateway.yaml'), `server: { port: ${file} }`)
    const env = { GATEWAY_PORT: String(variable) }
    expect((await started(cwd, ['--port', String(flag)], env)).port).toBe(flag)
    expect((await started(cwd, [], env)).port).toBe(variable)
    expect((await started(cwd, [])).port).toBe(file)
  })

  test('says which config file it read, and which it did not read', async () => {
    const cwd = emptyDirectory()
    const readLine = async (...args: string[]) => {
      const { logged } = await started(cwd, ['--port', '0', '--log', 'json', ...args])
      return logged
        .split('\n')
        .flatMap(line => (line.includes('config.read') ? JSON.parse(line) : []))
    }
    const [event, file] = ['config.read', join(cwd, 'gateway.yaml')]
    writeFileSync(file, '{}')
    expect(await readLine()).toMatchObject([{ event, file }])
    expect(await readLine('--data', 'other')).toMatchObject([
      { event, file: 'none', skipped: file },
    ])
  })

  test('a used port fails in one line, and makes no keys that are lost', async () => {
    const cwd = emptyDirectory()
    const taken = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    const failed = await runGateway(['serve', '--port', String(taken.port)], { cwd })
    taken.stop(true)
    expect([failed.code, /^gateway: [^\n]+\n$/.test(failed.stderr)]).toEqual([1, true])
    expect(`${failed.stdout}${failed.stderr}`).not.toMatch(KEYS)
    expect(new Set((await startOnTerminal(cwd)).match(KEYS)).size).toBe(2)
  })

  test('a port of another gateway counts as used too', async () => {
    await using server = await startServer()
    const { code, stderr } = await runGateway(['serve', '--port', new URL(server.url).port], {
      cwd: emptyDirectory(),
    })
    expect([code, /^gateway: [^\n]+\n$/.test(stderr)]).toEqual([1, true])
  })

  test.each(['eighty', '23000x', ' ', '1e3', '0x10', '65536'])(
    'a GATEWAY_PORT of %j is wrong usage, in one line that names it',
    async port => {
      const env = { GATEWAY_PORT: port }
      const { code, stderr } = await runGateway(['serve'], { cwd: emptyDirectory(), env })
      const line = 'gateway: GATEWAY_PORT: expected an integer from 0 to 65535\n'
      expect([code, stderr]).toEqual([2, line])
    },
  )

  test('so is a --port that is none', async () => {
    const { code, stderr } = await runGateway(['serve', '--port', '1e3'], { cwd: emptyDirectory() })
    expect([code, stderr]).toEqual([2, expect.stringContaining("'--port <n>' argument '1e3'")])
    expect(stderr).toContain('expected an integer from 0 to 65535')
  })

  test('a wrong config is wrong usage, and the data directory still works afterwards', async () => {
    const cwd = emptyDirectory()
    writeFileSync(join(cwd, 'bad.yaml'), 'providers: { openai: {} }')
    expect((await runGateway(['serve', '--port', '0', '--config', 'bad.yaml'], { cwd })).code).toBe(
      2,
    )
    expect(await startOnTerminal(cwd)).toMatch(KEYS)
  })

  test('ends with 0 even if it is stopped just as it begins to listen', async () => {
    const cwd = emptyDirectory()
    const codes = []
    for (let i = 0; i < 5; i++) codes.push((await started(cwd, ['--port', '0'])).code)
    expect(codes).toEqual([0, 0, 0, 0, 0])
  })

  test('ends with 0 when it is stopped, and releases the data directory', async () => {
    await using first = await startServer()
    expect((await first.stop()).code).toBe(0)
    await using second = await startServer({ data: first.data })
    expect((await second.fetch('/key', { key: first.inference_key })).status).toBe(200)
  })

  test('a killed server leaves no lock behind', async () => {
    await using first = await startServer()
    await first.kill()
    await using second = await startServer({ data: first.data })
    expect((await second.fetch('/key', { key: first.inference_key })).status).toBe(200)
  })

  test('answers as soon as it reports that it listens', async () => {
    await using server = await startServer()
    expect(await (await fetch(`${server.url}/health`)).json()).toEqual({ status: 'ok' })
    expect((await fetch(`${server.url}/ready`)).status).toBe(200)
  })
})
