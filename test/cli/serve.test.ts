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
  test('prints its first two keys on the first start, and only then', async () => {
    const cwd = emptyDirectory()
    const first = await started(cwd, ['--port', '0'])
    const second = await started(cwd, ['--port', '0'])
    // The inference key is also in the line that shows how to try it.
    expect(new Set(first.printed.match(KEYS)).size).toBe(2)
    expect(first.printed).toContain(`curl http://127.0.0.1:${first.port}/api/v1/chat/completions`)
    expect(first.printed.trimEnd().split('\n').at(-1)).toBe(
      `gateway listens on http://127.0.0.1:${first.port}`,
    )
    expect(second.printed).toBe(`gateway listens on http://127.0.0.1:${second.port}\n`)
  })

  test('prints events as JSON on request, one per line', async () => {
    const { printed, port } = await started(emptyDirectory(), ['--port', '0', '--log', 'json'])
    const events = printed
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(events).toMatchObject([
      {
        event: 'keys',
        workspace_id: expect.any(String),
        management_key: expect.any(String),
        inference_key: expect.any(String),
      },
      { event: 'listening', url: `http://127.0.0.1:${port}` },
    ])
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
  }, 20_000)

  test('a used port fails in one line, and does not lose the first keys', async () => {
    const cwd = emptyDirectory()
    const taken = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    const failed = await runGateway(['serve', '--port', String(taken.port)], { cwd })
    taken.stop(true)
    expect([failed.code, /^gateway: [^\n]+\n$/.test(failed.stderr)]).toEqual([1, true])
    const next = await started(cwd, ['--port', '0'])
    expect(`${failed.stdout}${next.printed}`.match(KEYS)).toHaveLength(2)
  })

  test('a port of another gateway counts as used too', async () => {
    await using server = await startServer()
    const { code, stderr } = await runGateway(['serve', '--port', new URL(server.url).port], {
      cwd: emptyDirectory(),
    })
    expect([code, /^gateway: [^\n]+\n$/.test(stderr)]).toEqual([1, true])
  })

  test('a wrong GATEWAY_PORT is wrong usage', async () => {
    const { code, stderr } = await runGateway(['serve'], {
      cwd: emptyDirectory(),
      env: { GATEWAY_PORT: 'eighty' },
    })
    expect([code, stderr.trimEnd().split('\n').length]).toEqual([2, 1])
  })

  test('a wrong config is wrong usage, and the data directory still works afterwards', async () => {
    const cwd = emptyDirectory()
    writeFileSync(join(cwd, 'bad.yaml'), 'providers: { openai: {} }')
    expect((await runGateway(['serve', '--port', '0', '--config', 'bad.yaml'], { cwd })).code).toBe(
      2,
    )
    expect((await started(cwd, ['--port', '0'])).printed).toMatch(KEYS)
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
