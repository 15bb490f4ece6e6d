import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { START_ORDER } from '../build.ts'
import { recordStart } from '../scripts/start-order.ts'
import { PROGRAM, runGateway, SOURCE, startServer } from './support/server.ts'

const built = process.env.GATEWAY_TEST_BINARY !== undefined
const hasStrace = existsSync('/usr/bin/strace')

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/**
 * Tells how many times the processor time of another act one takes: both run in turns, and the
 * least of each counts, so that what else the machine does counts for neither.
 */
async function compareTimes(
  act: () => Promise<number>,
  other: () => Promise<number>,
  runs = 7,
): Promise<number> {
  const times: { act: number[]; other: number[] } = { act: [], other: [] }
  for (let i = 0; i < runs; i++) {
    times.other.push(await other())
    times.act.push(await act())
  }
  return Math.min(...times.act) / Math.min(...times.other)
}

/** Returns what a child that has ended took of the processor, in milliseconds. */
const readCpuOf = (child: Bun.Subprocess): number =>
  Number(child.resourceUsage()?.cpuTime.total ?? Number.NaN) / 1000

/** Runs a command, and returns what it took of the processor, in milliseconds. */
async function measureCommand(args: string[], program = PROGRAM): Promise<number> {
  const child = Bun.spawn([...program, ...args], { cwd: directory, stdout: 'ignore' })
  expect(await child.exited).toBe(0)
  return readCpuOf(child)
}

// The commands are loaded for `version`, and not for `--version`.
const printVersion = () => measureCommand(['version'])
const printVersionFromSource = () => measureCommand(['version'], SOURCE)

/** The resident memory of a process, in MiB. */
const residentMiB = (pid: number) =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

describe.skipIf(!built)('the binary (needs GATEWAY_TEST_BINARY)', () => {
  // Measured on two cores, idle and busy: 0.2 to 0.4, 2 to 2.6, and 4 to 8 times.
  test('starts faster than the source', async () => {
    expect(await compareTimes(printVersion, printVersionFromSource)).toBeLessThan(1)
  })

  test('opens a data directory about as fast as it starts', async () => {
    const data = join(directory, 'listed')
    await runGateway(['init', '--data', data])
    const listKeys = () => measureCommand(['keys', 'list', '--data', data])
    expect(await compareTimes(listKeys, printVersion)).toBeLessThan(8)
  })

  test('answers its first call soon after it starts', async () => {
    const answerFirstCall = async () => {
      await using server = await startServer()
      const json = { model: 'sandbox/echo', messages: [{ role: 'user', content: 'Hi' }] }
      expect((await server.fetch('/chat/completions', { json })).status).toBe(200)
      await server.kill()
      return readCpuOf(server.process)
    }
    expect(await compareTimes(answerFirstCall, printVersion, 5)).toBeLessThan(25)
  })

  test('prints its version and its help without creating anything', async () => {
    const empty = mkdtempSync(join(directory, 'empty-'))
    for (const flag of ['--version', '--help'])
      expect((await runGateway([flag], { cwd: empty })).code).toBe(0)
    expect(readdirSync(empty)).toEqual([])
  })

  test('knows the commit that it was built from, without loading a command', async () => {
    const [flag, command] = await Promise.all([
      runGateway(['--version', '--json']),
      runGateway(['version', '--json']),
    ])
    expect(flag).toEqual(command)
    const { commit, date } = JSON.parse(flag.stdout)
    // A checkout that was changed since is of another state; a copy without git is of none.
    expect(commit).toMatch(/^[0-9a-f]{40}(-dirty)?$|^unknown$/)
    expect(date).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$|^unknown$/)
  })

  test('uses less than 100 MiB when idle', async () => {
    await using server = await startServer()
    await server.fetch('/key')
    expect(residentMiB(server.process.pid)).toBeLessThan(100)
  })

  test('has what its start runs side by side: `bun run start-order` after many changes', async () => {
    const known = new Set((await Bun.file(join(ROOT, START_ORDER)).text()).split('\n'))
    const ran = await recordStart(PROGRAM[0] ?? '', directory)
    expect(ran.filter(line => known.has(line)).length / ran.length).toBeGreaterThan(0.7)
  })

  test('serves the API reference page, which is embedded', async () => {
    await using server = await startServer()
    for (const part of ['', '/bundle.js', '/page.css', '/page.js'])
      expect((await fetch(`${server.url}/docs${part}`)).status).toBe(200)
  })

  test('protects its routes like the source does', async () => {
    await using server = await startServer()
    const statuses = await Promise.all(
      [null, server.inference_key, server.management_key].map(
        async key => (await server.fetch('/keys', { key })).status,
      ),
    )
    expect(statuses).toEqual([401, 403, 200])
  })
})

describe.skipIf(!built)('the binary in a hostile directory (needs GATEWAY_TEST_BINARY)', () => {
  const hostile = join(directory, 'hostile')
  const marker = join(hostile, 'was-here')

  beforeAll(async () => {
    await Bun.write(
      join(hostile, '.env'),
      'GATEWAY_PORT=1\nPORT=1\nGATEWAY_DATA=stolen\nNODE_TLS_REJECT_UNAUTHORIZED=0\n',
    )
    writeFileSync(
      join(hostile, 'preload.ts'),
      `require('node:fs').writeFileSync(${JSON.stringify(marker)}, 'x')`,
    )
    writeFileSync(
      join(hostile, 'bunfig.toml'),
      'preload = ["./preload.ts"]\n[run]\npreload = ["./preload.ts"]\n',
    )
    writeFileSync(
      join(hostile, 'package.json'),
      '{ "name": "hostile", "version": "9.9.9", "type": "commonjs" }',
    )
    writeFileSync(
      join(hostile, 'tsconfig.json'),
      '{ "compilerOptions": { "paths": { "*": ["./preload.ts"] } } }',
    )
    await Bun.write(
      join(hostile, 'node_modules/elysia/index.js'),
      `require('node:fs').writeFileSync(${JSON.stringify(marker)}, 'x')`,
    )
    await Bun.write(
      join(hostile, 'node_modules/elysia/package.json'),
      '{ "name": "elysia", "main": "index.js" }',
    )
  })

  test('R-05 runs commands and serves as if the directory were empty', async () => {
    const { version } = await Bun.file(join(import.meta.dir, '../package.json')).json()
    expect((await runGateway(['--version'], { cwd: hostile })).stdout).toBe(`${version}\n`)
    const data = join(directory, 'safe')
    expect((await runGateway(['init', '--data', data], { cwd: hostile })).code).toBe(0)
    const child = Bun.spawn([...PROGRAM, 'serve', '--data', data, '--log', 'json'], {
      cwd: hostile,
      env: { ...process.env, GATEWAY_PORT: '0' },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const { value } = await child.stdout.getReader().read()
    child.kill('SIGTERM')
    expect(new TextDecoder().decode(value)).toMatch(
      /"listening","url":"http:\/\/127\.0\.0\.1:(?!1")\d+"/,
    )
    expect(await child.exited).toBe(0)
    expect([existsSync(marker), existsSync(join(hostile, 'stolen'))]).toEqual([false, false])
  })

  test('reads no variable from its .env', async () => {
    const { code } = await runGateway(['init'], { cwd: hostile })
    expect([
      code,
      existsSync(join(hostile, 'stolen')),
      existsSync(join(hostile, 'gateway-data')),
    ]).toEqual([0, false, true])
  })
})

/** The process that this strace traces. */
const traced = (strace: number) =>
  Number(readFileSync(`/proc/${strace}/task/${strace}/children`, 'utf8').split(' ')[0])

describe.skipIf(!built || !hasStrace)(
  'the binary under strace (needs GATEWAY_TEST_BINARY and strace)',
  () => {
    /** Every address that this command connects to, from strace, until it ends or is stopped. */
    async function connections(args: string[], stopAfter?: RegExp): Promise<string[]> {
      const trace = join(directory, `trace-${args[0]}`)
      const strace = [
        'strace',
        '-f',
        '-qq',
        '-e',
        'trace=connect,sendto',
        '-e',
        'signal=none',
        '-o',
        trace,
        ...PROGRAM,
        ...args,
      ]
      const child = Bun.spawn(strace, {
        cwd: directory,
        stdin: 'ignore',
        stdout: 'pipe',
        stderr: 'ignore',
      })
      let printed = ''
      for await (const bytes of child.stdout) {
        printed += new TextDecoder().decode(bytes)
        if (!stopAfter?.test(printed)) continue
        await Bun.sleep(1_000)
        process.kill(traced(child.pid), 'SIGTERM')
        break
      }
      await child.exited
      return readFileSync(trace, 'utf8')
        .split('\n')
        .filter(line => /connect\(.*AF_INET|sendto\(.*AF_INET/.test(line))
    }

    test('R-04 opens no connection until it is configured to', async () => {
      const data = join(directory, 'quiet')
      expect(await connections(['init', '--data', data])).toEqual([])
      expect(await connections(['models', 'list', '--data', data])).toEqual([])
      expect(await connections(['serve', '--port', '0', '--data', data], /listens on/)).toEqual([])
    })
  },
)

describe.skipIf(!built)('the binary as a file (needs GATEWAY_TEST_BINARY)', () => {
  test('R-06 holds no path of the machine that built it, no key and no switch for faults', async () => {
    const bytes = Buffer.from(await Bun.file(PROGRAM[0] ?? '').bytes())
    const root = join(import.meta.dir, '..')
    for (const text of [`${root}/src`, `${root}/node_modules`, 'GATEWAY_FAILPOINT', 'gw-v1-0123'])
      expect([text, bytes.includes(text)]).toEqual([text, false])
  })
})

// Two builds take most of a minute of processor.
test.skipIf(!built || !process.env.GATEWAY_TEST_LONG)(
  'R-02 two builds of the same files, in directories of their own, are the same to the byte',
  () => {
    const rooms = ['dist/again', 'dist/once/more'].map(name => join(ROOT, name))
    try {
      const hashes = rooms.map(room => hashBuild(room))
      expect(hashes[0]).toBe(hashes[1] ?? '')
    } finally {
      for (const room of ['dist/again', 'dist/once']) rmSync(join(ROOT, room), { recursive: true })
    }
  },
)

const ROOT = join(import.meta.dir, '..')

/** Builds the program in a directory that gets its files, and the packages that are installed. */
function hashBuild(room: string): string {
  mkdirSync(room, { recursive: true })
  for (const name of ['src', 'docs', 'build.ts', 'package.json', 'tsconfig.json'])
    cpSync(join(ROOT, name), join(room, name), { recursive: true })
  const packages = realpathSync(join(ROOT, 'node_modules'))
  Bun.spawnSync(['cp', '-al', packages, join(room, 'node_modules')])
  const { stderr, success } = Bun.spawnSync([process.execPath, 'run', 'build.ts'], { cwd: room })
  if (!success) throw new Error(stderr.toString())
  const bytes = readFileSync(join(room, 'dist/gateway'))
  return Bun.CryptoHasher.hash('sha256', bytes, 'hex')
}

test('R-03 packages are pinned exactly, checked by hash, a week old, and run nothing', async () => {
  const read = (name: string) => Bun.file(join(import.meta.dir, '..', name))
  const manifest = await read('package.json').json()
  const pinned = Object.values<string>({ ...manifest.dependencies, ...manifest.devDependencies })
  expect(pinned.filter(version => !/^(npm:[^ ]+@)?\d+\.\d+\.\d+$/.test(version))).toEqual([])
  expect(manifest.trustedDependencies ?? []).toEqual([])
  // Two of them are what the console's page is made of.
  expect(Object.keys(manifest.dependencies).length).toBeLessThanOrEqual(26)
  const lock = await read('bun.lock').text()
  const packages = lock.slice(lock.indexOf('"packages": {')).match(/^ {4}"[^"]+": \[.*$/gm) ?? []
  expect(packages.length).toBeGreaterThan(100)
  expect(packages.filter(line => !/"sha512-[\w+/=]+"\],?$/.test(line))).toEqual([])
  const { install } = Bun.TOML.parse(await read('bunfig.toml').text()) as {
    install: { minimumReleaseAge: number }
  }
  expect(install.minimumReleaseAge).toBeGreaterThanOrEqual(7 * 86_400)
})
