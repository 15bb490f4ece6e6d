import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'bun:test'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { unzipSync } from 'fflate'
import manifest from '../../package.json' with { type: 'json' }
import { Archiver } from '../../scripts/release/archives.ts'
import { renderImage } from '../../scripts/release/image.ts'
import { RUNTIME_VERSION, SYSTEMS } from '../../scripts/release/systems.data.ts'
import { LONG } from '../support/random.ts'
import { PROGRAM, runGateway } from '../support/server.ts'

const ROOT = resolve(import.meta.dir, '../..')
const { version } = manifest
const NAME = `gateway-${version}-linux-x64`

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** Makes a directory for the running test. */
function makeRoom(): string {
  const room = mkdtempSync(join(directory, 'room-'))
  onTestFinished(() => rmSync(room, { recursive: true }))
  return room
}

/** Runs a command to its end, and returns what it printed; a failure is thrown with its words. */
function run(command: string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
  const { stdout, stderr, exitCode } = Bun.spawnSync(command, {
    ...options,
    env: { ...process.env, ...options.env },
  })
  if (exitCode !== 0) throw new Error(`${command.join(' ')}: ${stdout}${stderr}`)
  return stdout.toString()
}

// The C library of an image comes from Debian: images are tried below, with that of this host.
const COMMAND = [process.execPath, 'run', 'scripts/release.ts', '--no-image']
const release = (out: string, ...args: string[]) =>
  run([...COMMAND, '--out', out, ...args], {
    cwd: ROOT,
    env: { SOURCE_DATE_EPOCH: '1790000000' },
  })

/** A program in place of the built one that says its version: what is made of it is made at once. */
const STUB = join(directory, 'stub')
writeFileSync(STUB, `#!/bin/sh\necho ${version}\n`)
const BUILT = process.env.GATEWAY_TEST_BINARY && resolve(ROOT, process.env.GATEWAY_TEST_BINARY)
/** What starts the program under test, and is packed at once: that is 150 MB, in four files. */
const STARTER = join(directory, 'starter')
writeFileSync(STARTER, `#!/bin/sh\nexec ${PROGRAM.map(word => `'${word}'`).join(' ')} "$@"\n`)
const isRoot = process.getuid?.() === 0
const KEY = join(directory, 'key.pem')

/** A release of the small program, where install.sh finds it; its archive may be another file. */
const SMALL = join(directory, 'small')
let isSwapped = false
const site = Bun.serve({
  port: 0,
  fetch({ url }) {
    const name = new URL(url).pathname.slice(1)
    const path = join(SMALL, isSwapped && name.startsWith('gateway-') ? 'sbom.cdx.json' : name)
    return existsSync(path) ? new Response(Bun.file(path)) : new Response('', { status: 404 })
  },
})
afterAll(() => site.stop(true))
beforeAll(() => {
  run(['openssl', 'genpkey', '-algorithm', 'ed25519', '-out', KEY])
  releaseSmall(SMALL)
})

function releaseSmall(out: string) {
  release(out, '--only', 'linux-x64', '--program', STUB, '--sign', KEY, '--url', site.url.origin)
}

describe('a release', () => {
  const out = join(directory, 'release')
  const read = (name: string) => readFileSync(join(out, name))
  beforeAll(() => {
    // The program is packed and not compressed: that is for the small one of other tests.
    const program = ['--program', (LONG && BUILT) || STARTER, '--level', '0']
    release(out, '--only', 'linux-x64', ...program, '--sign', KEY)
  })

  test('has the sum of each of its files', () => {
    expect(run(['sha256sum', '--check', '--strict', 'SHA256SUMS'], { cwd: SMALL })).not.toBeEmpty()
    const sums = readFileSync(join(SMALL, 'SHA256SUMS'), 'utf8').trim().split('\n')
    const names = sums.map(line => line.slice(66))
    const written = readdirSync(SMALL).filter(name => !name.startsWith('SHA256SUMS'))
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
    const empty = makeRoom()
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
    if (process.env.GATEWAY_TEST_LONG) printFirstAnswer(archive)
    const program = [join(empty, NAME, 'gateway')]
    const runIt = (...args: string[]) => runGateway(args, { program, cwd: empty })
    expect(await runIt('version')).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
    expect(await runIt('try', 'sandbox/echo', 'Hello')).toMatchObject({ stdout: 'Hello\n' })
  })

  test('has the same in both of its archives', () => {
    const room = makeRoom()
    run(['tar', '--zstd', '-xf', join(SMALL, `${NAME}.tar.zst`)], { cwd: room })
    expect(run(['tar', '-dzf', join(SMALL, `${NAME}.tar.gz`)], { cwd: room })).toBe('')
  })

  test('has a Debian package, whose program runs, with pages, units and a user', async () => {
    const unpacked = makeRoom()
    const file = join(out, `gateway_${version}_amd64.deb`)
    run(['dpkg-deb', '--raw-extract', file, unpacked])
    const fields = run(['dpkg-deb', '--field', file])
    for (const field of ['Package: gateway', `Version: ${version}`, 'Architecture: amd64'])
      expect(fields).toContain(`${field}\n`)
    run(['md5sum', '--check', '--quiet', 'DEBIAN/md5sums'], { cwd: unpacked })
    for (const name of ['postinst', 'prerm', 'postrm'])
      run(['sh', '-n', `DEBIAN/${name}`], { cwd: unpacked })
    const readUnpacked = (path: string) => readFileSync(join(unpacked, 'usr', path), 'utf8')
    const unit = readUnpacked('lib/systemd/system/gateway.service')
    expect(unit).toContain('\nExecStart=/usr/bin/gateway serve')
    expect(unit).not.toContain('/usr/local')
    expect(readUnpacked('share/doc/gateway/copyright')).toStartWith('MIT License')
    expect(readUnpacked('share/man/man1/gateway.1')).toStartWith('.TH "GATEWAY" 1')
    expect(run([join(unpacked, 'usr/bin/gateway'), 'version'])).toBe(`${version}\n`)
  })

  test('has packages of npm, which npx runs without a script', () => {
    const readManifest = (name: string) =>
      JSON.parse(run(['tar', '--occurrence', '-xzOf', join(out, name), 'package/package.json']))
    const main = readManifest(`gateway-cli-${version}.tgz`)
    expect(main).toMatchObject({ name: '@gateway/cli', bin: { gateway: 'bin/gateway.cjs' } })
    expect(main.optionalDependencies).toEqual(
      Object.fromEntries(SYSTEMS.map(({ name }) => [`@gateway/cli-${name}`, version])),
    )
    const program = readManifest(`gateway-cli-linux-x64-${version}.tgz`)
    expect(program).toMatchObject({ os: ['linux'], cpu: ['x64'], libc: ['glibc'] })
    expect([main.scripts, program.scripts]).toEqual([undefined, undefined])
  })

  test('runs by npx from a registry', async () => {
    const room = makeRoom()
    using registry = startRegistry(process.env.GATEWAY_TEST_LONG ? out : SMALL)
    const result = await runGateway(['--yes', '@gateway/cli', 'version'], {
      program: ['npx'],
      cwd: room,
      env: {
        ...{ HOME: room, npm_config_cache: join(room, 'cache') },
        ...{ npm_config_registry: registry.url.href, npm_config_update_notifier: 'false' },
      },
    })
    expect(result).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  test('starts the program of npm with its signals and its exit code, or says what is missing', async () => {
    const room = makeRoom()
    run(['tar', '-xzf', join(SMALL, `gateway-cli-${version}.tgz`), '-C', room])
    const start = [join(room, 'package/bin/gateway.cjs'), 'serve']
    expect(await runGateway(start, { program: ['node'] })).toEqual({
      ...{ code: 1, stdout: '' },
      stderr: expect.stringMatching(
        /^gateway: @gateway\/cli-linux-\w+ is not installed: [^\n]+\n$/,
      ),
    })
    const program = join(room, `node_modules/@gateway/cli-linux-${process.arch}/gateway`)
    await Bun.write(
      program,
      '#!/bin/sh\ntrap "exit 7" TERM\necho "ready $1"\nwhile :; do sleep 0.05; done\n',
    )
    chmodSync(program, 0o755)
    const child = Bun.spawn(['node', ...start], { stdin: 'pipe', stdout: 'pipe' })
    for await (const bytes of child.stdout) {
      expect(Buffer.from(bytes).toString()).toBe('ready serve\n')
      child.kill('SIGTERM')
    }
    expect(await child.exited).toBe(7)
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

/** Prints what it takes to come from the archive to a first answer, in seconds of a processor. */
function printFirstAnswer(archive: string): void {
  const cwd = makeRoom()
  const commands = [
    ['tar', '--zstd', '-xf', archive],
    [join(NAME, 'gateway'), 'try', 'sandbox/echo', 'Hello'],
  ]
  const spent = commands.map(command => Bun.spawnSync(command, { cwd }).resourceUsage.cpuTime.total)
  const seconds = spent.map(microseconds => Number(microseconds) / 1e6)
  process.stdout.write(`from the archive to the first answer: ${seconds.join(' + ')} s of CPU\n`)
}

/** Serves the npm packages of a release as a registry does. */
function startRegistry(out: string) {
  const read = (file: string) =>
    JSON.parse(run(['tar', '--occurrence', '-xzOf', join(out, file), 'package/package.json']))
  const files = readdirSync(out).filter(name => name.endsWith('.tgz'))
  const packages = new Map(files.map(file => [read(file).name as string, file]))
  const server: Bun.Server<undefined> = Bun.serve({
    port: 0,
    async fetch({ url }) {
      const name = decodeURIComponent(new URL(url).pathname).slice(1)
      if (files.includes(name)) return new Response(Bun.file(join(out, name)))
      const file = packages.get(name)
      if (file === undefined) return Response.json({}, { status: 404 })
      const bytes = await Bun.file(join(out, file)).bytes()
      const integrity = `sha512-${Bun.CryptoHasher.hash('sha512', bytes, 'base64')}`
      const dist = { tarball: `${server.url}${file}`, integrity }
      const versions = { [version]: { ...read(file), dist } }
      return Response.json({ name, 'dist-tags': { latest: version }, versions })
    },
  })
  return { url: server.url, [Symbol.dispose]: () => server.stop(true) }
}

describe('the image of a release', () => {
  const layout = join(directory, 'image')
  const readJson = (path: string) => JSON.parse(readFileSync(join(layout, path), 'utf8'))
  const readBlob = ({ digest }: { digest: string }) => readJson(toPath(digest))
  const toPath = (digest: string) => `blobs/${digest.replace(':', '/')}`
  const root = join(directory, 'root')
  beforeAll(() => {
    const [name, bytes] = renderImage(new Archiver(1_790_000_000, 0), 'abc', [
      { architecture: 'amd64', ...listPlatform(BUILT) },
    ])
    writeFileSync(join(directory, name), bytes)
    for (const path of [layout, root]) mkdirSync(path)
    run(['tar', '-xf', join(directory, name), '-C', layout])
  })
  const readManifest = () => {
    const index = readBlob(readJson('index.json').manifests[0])
    return readBlob(index.manifests[0])
  }

  /** The program, and the libraries of this host that it names. */
  function listPlatform(program: string | undefined) {
    const linked = program === undefined ? '' : run(['ldd', program])
    const paths = [...linked.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path as string)
    return {
      program: { path: 'gateway', content: readFileSync(program ?? STUB), mode: 0o755 },
      libraries: paths.map(path => ({
        path: path.slice(1),
        content: readFileSync(path),
        mode: 0o755,
      })),
    }
  }

  test('is a layout of blobs under their digests, for the program as a user of its own', () => {
    for (const name of readdirSync(join(layout, 'blobs/sha256')))
      expect(Bun.SHA256.hash(readFileSync(join(layout, 'blobs/sha256', name)), 'hex')).toBe(name)
    expect(readJson('oci-layout')).toEqual({ imageLayoutVersion: '1.0.0' })
    const { config, layers } = readManifest()
    const { rootfs, ...image } = readBlob(config)
    expect(image).toMatchObject({
      ...{ architecture: 'amd64', os: 'linux', created: '2026-09-21T14:13:20.000Z' },
      config: { User: '10001:10001', Entrypoint: ['gateway'], Volumes: { '/data': {} } },
    })
    const contents = layers.map(({ digest, size }: { digest: string; size: number }) => {
      const bytes = readFileSync(join(layout, toPath(digest)))
      expect(bytes.length).toBe(size)
      return `sha256:${Bun.SHA256.hash(gunzipSync(bytes), 'hex')}`
    })
    expect(rootfs.diff_ids).toEqual(contents)
    // What docker reads where it knows no layouts.
    expect(readJson('manifest.json')).toEqual([
      {
        Config: toPath(config.digest),
        RepoTags: [`gateway:${version}-amd64`, 'gateway:latest'],
        Layers: layers.map(({ digest }: { digest: string }) => toPath(digest)),
      },
    ])
  })

  const isMountable = Bun.spawnSync(['unshare', '--mount', 'true']).success
  test.skipIf(BUILT === undefined || !isMountable)(
    'runs with nothing but what it holds and /proc (needs GATEWAY_TEST_BINARY and root)',
    () => {
      for (const { digest } of readManifest().layers)
        run(['tar', '-xzpf', join(layout, toPath(digest)), '-C', root])
      mkdirSync(join(root, 'proc'))
      const script = `mount -t proc proc "$0/proc" && run() { chroot --userspec=10001:10001 "$0" /usr/local/bin/gateway "$@"; }
        run init && run try sandbox/echo Hello`
      expect(
        run(['unshare', '--mount', 'sh', '-ec', script, root], { env: { GATEWAY_DATA: '/data' } }),
      ).toEndWith('Hello\n')
    },
  )

  test.skipIf(Bun.which('skopeo') === null)('is read by skopeo', () => {
    const { Labels } = JSON.parse(run(['skopeo', 'inspect', `oci:${layout}:${version}`]))
    expect(Labels['org.opencontainers.image.revision']).toBe('abc')
  })

  test.skipIf(Bun.which('umoci') === null)('is unpacked by umoci', () => {
    const bundle = join(directory, 'bundle')
    run([
      'umoci',
      'unpack',
      ...(isRoot ? [] : ['--rootless']),
      '--image',
      `${layout}:${version}`,
      bundle,
    ])
    expect(existsSync(join(bundle, 'rootfs/usr/local/bin/gateway'))).toBe(true)
  })
})

describe('install.sh', () => {
  /** Runs it as a user who is not root, in a new home. */
  async function install(...args: string[]) {
    const home = makeRoom()
    if (isRoot) for (const path of [directory, home]) chmodSync(path, path === home ? 0o777 : 0o711)
    const user = isRoot ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : []
    const result = await runGateway([join(SMALL, 'install.sh'), ...args], {
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
    const dir = join(makeRoom(), 'with a space')
    const old = join(dir, 'share/man/man1/gateway-gone.1')
    await Bun.write(old, 'old')
    await Bun.write(join(dir, 'share/doc/gateway/installed'), 'share/man/man1/gateway-gone.1\n')
    const installHere = (...args: string[]) =>
      run(['sh', join(SMALL, 'install.sh'), '--dir', dir, ...args])
    installHere('--from', SMALL)
    expect([existsSync(old), existsSync(join(dir, 'bin/gateway'))]).toEqual([false, true])
    installHere('--uninstall')
    expect([...new Bun.Glob('**').scanSync({ cwd: dir })]).toEqual([])
  })

  test('checks who signed the release', async () => {
    const other = join(directory, 'other.pem')
    run(['openssl', 'genpkey', '-algorithm', 'ed25519', '-out', other])
    run(['openssl', 'pkey', '-in', other, '-pubout', '-out', `${other}.pub`])
    chmodSync(`${other}.pub`, 0o644)
    expect(await install('--key', join(SMALL, 'SHA256SUMS.pem'))).toMatchObject({ code: 0 })
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
    const text = readFileSync(join(SMALL, 'install.sh'), 'utf8')
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
  const again = join(directory, 'again')
  releaseSmall(again)
  const [once, sums] = [SMALL, again].map(out => readFileSync(join(out, 'SHA256SUMS'), 'utf8'))
  expect(once).toBe(sums as string)
})

// Seven builds take a minute and a half of a processor, and runtimes that only a network has.
const runtimes = join(ROOT, 'dist/runtimes')
const isWhole =
  process.env.GATEWAY_TEST_LONG && existsSync(runtimes) && readdirSync(runtimes).length >= 9
test.skipIf(!isWhole)(
  'a release for all systems, of which arm64 runs under qemu-user (needs dist/runtimes)',
  () => {
    const out = join(directory, 'whole')
    const command = COMMAND.filter(word => word !== '--no-image')
    run([...command, '--level', '1', '--out', out], { cwd: ROOT })
    const heads = SYSTEMS.map(({ name, npm }) => {
      const path = `gateway-${version}-${name}/gateway`
      const archive = join(
        out,
        `gateway-${version}-${name}.${npm.os === 'win32' ? 'zip' : 'tar.gz'}`,
      )
      if (npm.os !== 'win32') run(['tar', '-xzf', archive, '-C', directory, path])
      else
        writeFileSync(
          join(directory, 'gateway.exe'),
          unzipSync(readFileSync(archive))[`${path}.exe`] ?? '',
        )
      const file = npm.os === 'win32' ? 'gateway.exe' : path
      return [name, readFileSync(join(directory, file)).toString('latin1', 0, 4)]
    })
    expect(Object.fromEntries(heads)).toEqual({
      ...{ 'linux-x64': '\x7fELF', 'linux-x64-musl': '\x7fELF' },
      ...{ 'linux-arm64': '\x7fELF', 'linux-arm64-musl': '\x7fELF' },
      ...{ 'darwin-arm64': '\xcf\xfa\xed\xfe', 'darwin-x64': '\xcf\xfa\xed\xfe' },
      'windows-x64': expect.stringMatching(/^MZ/),
    })
    const qemu = Bun.which('qemu-aarch64-static') ?? Bun.which('qemu-aarch64')
    if (qemu === null) return
    const library = readdirSync(runtimes).find(name => name.endsWith('_arm64.deb')) ?? ''
    run(['dpkg-deb', '--extract', join(runtimes, library), join(directory, 'arm64')])
    const program = join(directory, `gateway-${version}-linux-arm64/gateway`)
    const asked = [program, 'try', 'sandbox/echo', 'Hello']
    expect(run([qemu, '-L', join(directory, 'arm64'), ...asked], { cwd: makeRoom() })).toBe(
      'Hello\n',
    )
  },
  600_000,
)

test('a release for Windows is a zip archive', () => {
  const out = join(directory, 'windows')
  release(out, '--only', 'windows-x64', '--program', STUB)
  const name = `gateway-${version}-windows-x64`
  const files = unzipSync(readFileSync(join(out, `${name}.zip`)))
  expect(files[`${name}/gateway.exe`]).toEqual(new Uint8Array(readFileSync(STUB)))
  expect(Object.keys(files)).toContain(`${name}/LICENSE`)
})

describe('a release is refused', () => {
  test.each([
    [['--only', 'plan9-x64'], '--only: expected linux-x64, '],
    [['--program', STUB], '--program: expected one system in --only'],
    [['--only', 'linux-x64', '--sign', STUB], 'release: '],
  ])('for %p', (args, words) => {
    expect(() => release(makeRoom(), ...args)).toThrow(words)
  })

  test('into a directory that has files', () => {
    expect(() => release(ROOT, '--only', 'linux-x64')).toThrow(`${ROOT} is not empty`)
  })

  test('of a runtime with another sum', () => {
    const runtimes = makeRoom()
    writeFileSync(join(runtimes, `oven-bun-linux-x64-${RUNTIME_VERSION}.tgz`), 'something else')
    expect(() => release(makeRoom(), '--only', 'linux-x64', '--runtimes', runtimes)).toThrow(
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
