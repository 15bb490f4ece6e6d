import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { unzipSync } from 'fflate'
import manifest from '../../package.json' with { type: 'json' }
import { RUNTIME_VERSION, SYSTEMS } from '../../scripts/release/systems.data.ts'
import { runGateway, SOURCE } from '../support/server.ts'

const ROOT = resolve(import.meta.dir, '../..')
const { version } = manifest
const NAME = `gateway-${version}-linux-x64`

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** Runs a command to its end, and returns what it printed; a failure is thrown with its words. */
function run(command: string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
  const { stdout, stderr, exitCode } = Bun.spawnSync(command, {
    ...options,
    env: { ...process.env, ...options.env },
  })
  if (exitCode !== 0) throw new Error(`${command.join(' ')}: ${stdout}${stderr}`)
  return stdout.toString()
}

const release = (out: string, ...args: string[]) =>
  run([process.execPath, 'run', 'scripts/release.ts', '--level', '1', '--out', out, ...args], {
    cwd: ROOT,
    env: { SOURCE_DATE_EPOCH: '1790000000' },
  })

/** A program in place of the built one that says its version: what is made of it is made at once. */
const STUB = join(directory, 'stub')
writeFileSync(STUB, `#!/bin/sh\necho ${version}\n`)
/** The program from source. */
const REAL = join(directory, 'real')
writeFileSync(REAL, `#!/bin/sh\nexec ${SOURCE.map(word => `'${word}'`).join(' ')} "$@"\n`)
const KEY = join(directory, 'key.pem')

describe('a release', () => {
  const built = process.env.GATEWAY_TEST_BINARY
  const out = join(directory, 'release')
  const read = (name: string) => readFileSync(join(out, name))
  beforeAll(() => {
    run(['openssl', 'genpkey', '-algorithm', 'ed25519', '-out', KEY])
    const program = built === undefined ? REAL : resolve(ROOT, built)
    release(out, '--only', 'linux-x64', '--program', program, '--sign', KEY)
  })

  test('has the sum of each of its files', () => {
    expect(run(['sha256sum', '--check', '--strict', 'SHA256SUMS'], { cwd: out })).not.toBeEmpty()
    const sums = read('SHA256SUMS').toString().trim().split('\n')
    const names = sums.map(line => line.slice(66))
    const written = readdirSync(out).filter(name => !name.startsWith('SHA256SUMS'))
    expect(written.toSorted()).toEqual(names)
  })

  test('is signed with the key, as openssl verifies', () => {
    const verify = (file: string) =>
      run(
        ['openssl', 'pkeyutl', '-verify', '-pubin', '-inkey', 'SHA256SUMS.pem', '-rawin'].concat(
          ...['-in', file, '-sigfile', 'SHA256SUMS.sig'],
        ),
        { cwd: out },
      )
    expect(verify('SHA256SUMS')).toContain('Verified Successfully')
    expect(() => verify('sbom.cdx.json')).toThrow('Verification Failure')
  })

  test('has an archive whose program runs in an empty directory, with all that goes with it', async () => {
    const empty = mkdtempSync(join(directory, 'empty-'))
    const archive = join(out, `${NAME}.tar.zst`)
    const listed = run(['tar', '--utc', '--zstd', '-xvvf', archive], { cwd: empty })
      .trim()
      .split('\n')
    expect(readdirSync(empty)).toEqual([NAME])
    const isCommon = /^-rw[x-]r-[x-]r-[x-] 0\/0 +\d+ 2026-09-21 14:13 /
    expect(listed.filter(line => !isCommon.test(line) && !/Creating directory/.test(line))).toEqual(
      [],
    )
    const names = listed.map(line => line.split(`${NAME}/`)[1])
    for (const name of [
      ...['gateway', 'LICENSE', 'README.md', 'LICENSES-OF-PACKAGES.txt'],
      ...['completions/gateway.bash', 'completions/_gateway', 'completions/gateway.fish'],
      ...['man/man1/gateway.1', 'man/man1/gateway-keys-create.1'],
      ...['deploy/gateway.service', 'deploy/gateway.socket'],
    ])
      expect(names).toContain(name)
    run(['tar', '-dzf', join(out, `${NAME}.tar.gz`)], { cwd: empty })
    const program = [join(empty, NAME, 'gateway')]
    const runIt = (...args: string[]) => runGateway(args, { program, cwd: empty })
    expect(await runIt('version')).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
    expect(await runIt('init')).toMatchObject({ code: 0 })
    expect(await runIt('try', 'sandbox/echo', 'Hello')).toMatchObject({ stdout: 'Hello\n' })
  })

  test('lists the packages of the program as CycloneDX, those of tests not', () => {
    const { components, ...list } = JSON.parse(read('sbom.cdx.json').toString())
    expect(list).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6', version: 1 })
    expect(list.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    expect(list.metadata.timestamp).toBe('2026-09-21T14:13:20.000Z')
    const refs: string[] = components.map((one: { 'bom-ref': string }) => one['bom-ref'])
    expect(new Set(refs).size).toBe(refs.length)
    for (const [name, pinned] of Object.entries(manifest.dependencies))
      expect(refs).toContain(`${name}@${pinned}`)
    expect(refs).toContain(`bun@${manifest.dependencies.bun}`)
    expect(refs.filter(ref => /^(typescript|openai|@biomejs\/biome)@/.test(ref))).toEqual([])
  })
})

describe('install.sh', () => {
  const out = join(directory, 'to-install')
  const root = process.getuid?.() === 0
  let server: Bun.Server<undefined>
  let isSwapped = false
  beforeAll(() => {
    server = Bun.serve({
      port: 0,
      fetch({ url }) {
        const name = new URL(url).pathname.slice(1)
        // What stands in for the archive has not its sum.
        const path = join(out, isSwapped && name.startsWith('gateway-') ? 'sbom.cdx.json' : name)
        return existsSync(path) ? new Response(Bun.file(path)) : new Response('', { status: 404 })
      },
    })
    release(
      out,
      '--only',
      'linux-x64',
      '--program',
      STUB,
      '--sign',
      KEY,
      '--url',
      server.url.origin,
    )
  })
  afterAll(() => server.stop(true))

  /** Runs it as a user who is not root, in a new home. */
  async function install(...args: string[]) {
    const home = mkdtempSync(join(directory, 'home-'))
    if (root) for (const path of [directory, home]) chmodSync(path, path === home ? 0o777 : 0o711)
    const user = root ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : []
    const result = await runGateway([join(out, 'install.sh'), ...args], {
      program: [...user, 'sh'],
      cwd: home,
      env: { HOME: home, TMPDIR: '/tmp', PATH: '/usr/bin:/bin' },
    })
    const files = new Bun.Glob('**').scanSync({ cwd: home, dot: true })
    return { ...result, home, files: [...files].toSorted() }
  }

  test('installs the program and its pages for who runs it, and tells how to remove them', async () => {
    const { code, stdout, stderr, home, files } = await install()
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain(`Installed gateway ${version} in ${home}/.local/bin\n`)
    for (const path of [
      ...['bin/gateway', 'share/man/man1/gateway-keys-create.1', 'share/doc/gateway/LICENSE'],
      ...['share/bash-completion/completions/gateway', 'share/zsh/site-functions/_gateway'],
      'share/fish/vendor_completions.d/gateway.fish',
    ])
      expect(files).toContain(`.local/${path}`)
    expect(run([join(home, '.local/bin/gateway'), 'version'])).toBe(`${version}\n`)
    const [, line = ''] = /^To remove it: (.*)$/m.exec(stdout) ?? []
    run(['sh', '-c', line])
    expect([...new Bun.Glob('**').scanSync({ cwd: home, dot: true })]).toEqual([])
  })

  test('replaces an older version, and removes what it had', async () => {
    const dir = join(mkdtempSync(join(directory, 'older-')), 'with a space')
    const old = join(dir, 'share/man/man1/gateway-gone.1')
    await Bun.write(old, 'old')
    await Bun.write(join(dir, 'share/doc/gateway/installed'), 'share/man/man1/gateway-gone.1\n')
    const installHere = (...args: string[]) =>
      run(['sh', join(out, 'install.sh'), '--dir', dir, ...args])
    installHere('--from', out)
    expect([existsSync(old), existsSync(join(dir, 'bin/gateway'))]).toEqual([false, true])
    installHere('--uninstall')
    expect([...new Bun.Glob('**').scanSync({ cwd: dir })]).toEqual([])
  })

  test('checks who signed the release', async () => {
    const other = join(directory, 'other.pem')
    run(['openssl', 'genpkey', '-algorithm', 'ed25519', '-out', other])
    run(['openssl', 'pkey', '-in', other, '-pubout', '-out', `${other}.pub`])
    chmodSync(`${other}.pub`, 0o644)
    expect(await install('--key', join(out, 'SHA256SUMS.pem'))).toMatchObject({ code: 0 })
    expect(await install('--key', `${other}.pub`)).toMatchObject({
      ...{ code: 1, files: [], stderr: `install.sh: SHA256SUMS is not signed with ${other}.pub\n` },
    })
  })

  test('refuses an archive with a wrong sum, and installs nothing', async () => {
    isSwapped = true
    const name = `${NAME}.tar.${Bun.which('zstd') === null ? 'gz' : 'zst'}`
    expect(await install()).toMatchObject({
      ...{ code: 1, files: [], stdout: '' },
      stderr: `install.sh: the sum of ${name} is wrong: it is not installed\n`,
    })
    isSwapped = false
  })

  test('of which half was loaded does nothing', async () => {
    const text = readFileSync(join(out, 'install.sh'), 'utf8')
    const half = text.slice(0, text.indexOf('main "$@"'))
    expect(await runGateway([], { program: ['sh'], stdin: half })).toEqual({
      ...{ code: 0, stdout: '', stderr: '' },
    })
  })

  test.each([
    [['--form', 'x'], 2, 'sh install.sh [--from'],
    [['--from', '/nowhere'], 1, 'install.sh: /nowhere/SHA256SUMS is not there\n'],
    [
      ['--from', 'http://127.0.0.1:9/'],
      1,
      'install.sh: http://127.0.0.1:9//SHA256SUMS is not there\n',
    ],
  ])('says what is wrong: %p', async (args, code, words) => {
    const result = await install(...args)
    expect([result.code, result.files]).toEqual([code, []])
    expect(result.stderr).toContain(words)
  })
})

test('two releases of one commit are the same to the byte', () => {
  const outs = ['once', 'again'].map(name => join(directory, name))
  for (const out of outs) release(out, '--only', 'linux-x64', '--program', STUB)
  const [once, again] = outs.map(out => readFileSync(join(out, 'SHA256SUMS'), 'utf8'))
  expect(once).toBe(again as string)
})

test('a release for Windows is a zip archive', () => {
  const out = join(directory, 'windows')
  release(out, '--only', 'windows-x64', '--program', STUB)
  const name = `gateway-${version}-windows-x64`
  const files = unzipSync(readFileSync(join(out, `${name}.zip`)))
  expect(files[`${name}/gateway.exe`]).toEqual(new Uint8Array(readFileSync(STUB)))
  expect(Object.keys(files)).toContain(`${name}/LICENSE`)
})

describe('a release is refused', () => {
  const empty = () => mkdtempSync(join(directory, 'empty-'))

  test.each([
    [['--only', 'plan9-x64'], '--only: expected linux-x64, '],
    [['--program', STUB], '--program: expected one system in --only'],
    [['--only', 'linux-x64', '--sign', STUB], 'release: '],
  ])('for %p', (args, words) => {
    expect(() => release(empty(), ...args)).toThrow(words)
  })

  test('into a directory that has files', () => {
    expect(() => release(ROOT, '--only', 'linux-x64')).toThrow(`${ROOT} is not empty`)
  })

  test('of a runtime with another sum', () => {
    const runtimes = empty()
    writeFileSync(join(runtimes, `oven-bun-linux-x64-${RUNTIME_VERSION}.tgz`), 'something else')
    expect(() => release(empty(), '--only', 'linux-x64', '--runtimes', runtimes)).toThrow(
      `oven-bun-linux-x64-${RUNTIME_VERSION}.tgz is not sha512-`,
    )
  })
})

test('a release has the runtime of this project, with the sums of bun.lock', async () => {
  expect(RUNTIME_VERSION).toBe(manifest.dependencies.bun)
  const lock = await Bun.file(join(ROOT, 'bun.lock')).text()
  // Those of musl are no packages of the lock.
  for (const { runtime } of SYSTEMS.filter(({ npm }) => npm.libc !== 'musl'))
    expect(lock).toMatch(
      new RegExp(`"${runtime.package}@${RUNTIME_VERSION}".*${RegExp.escape(runtime.integrity)}`),
    )
})
