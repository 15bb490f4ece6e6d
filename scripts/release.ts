/**
 * Makes a release of this commit: `bun run release`. Archives for each system, lists of materials
 * and sums: the same bytes from the same commit, on every machine like this one.
 */
import { createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readCommit } from '../build.ts'
import { VERSION } from '../src/base/version.ts'
import { Archiver, type Entry } from './release/archives.ts'
import { listContents, readOwn } from './release/contents.ts'
import { renderDebian } from './release/debian.ts'
import { type Platform, renderImage } from './release/image.ts'
import { renderNpmMain, renderNpmProgram } from './release/npm.ts'
import { listPackages, renderLicenses, renderSbom } from './release/packages.ts'
import { buildFor, readLibraries } from './release/runtimes.ts'
import { SYSTEMS, type System } from './release/systems.data.ts'

const USAGE = `bun run release [--only linux-x64,darwin-arm64] [--out dist/release]
  [--runtimes dist/runtimes] [--program FILE] [--level 6] [--sign KEY.pem]
  [--url https://…] [--scope @gateway] [--no-image]

Makes archives of the program for ${SYSTEMS.map(({ name }) => name).join(', ')};
packages of npm and Debian; an image of containers; install.sh, a list of materials (CycloneDX) and
SHA256SUMS. Runtimes, and the C library of the image, come from the folder, offline, or once from npm
and Debian, and are checked; --no-image does without the library.

--program takes a program that is built instead, for the one system of --only. --sign signs
SHA256SUMS with an Ed25519 key, as openssl genpkey -algorithm ed25519 makes it. --url is where the
release will be, and install.sh gets it from. --scope is whose packages they are at npm.
`

try {
  await makeRelease()
} catch (thrown) {
  process.stderr.write(`release: ${thrown instanceof Error ? thrown.message : thrown}\n`)
  process.exit(1)
}

async function makeRelease(): Promise<void> {
  const options = readOptions()
  const key = options.sign === undefined ? undefined : readKey(options.sign)
  const lines: string[] = []
  await makeFiles(options, ([name, bytes]) => {
    writeFileSync(join(options.out, name), bytes)
    lines.push(`${Bun.SHA256.hash(bytes, 'hex')}  ${name}\n`)
  })
  const sums = lines.toSorted((a, b) => (a.slice(66) < b.slice(66) ? -1 : 1)).join('')
  writeFileSync(join(options.out, 'SHA256SUMS'), sums)
  if (key) {
    writeFileSync(join(options.out, 'SHA256SUMS.sig'), sign(null, Buffer.from(sums), key))
    const pem = createPublicKey(key).export({ type: 'spki', format: 'pem' })
    writeFileSync(join(options.out, 'SHA256SUMS.pem'), pem)
  }
  process.stdout.write(`${options.out}:\n${sums}`)
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      ...{ help: { type: 'boolean' }, only: { type: 'string' }, program: { type: 'string' } },
      ...{ out: { type: 'string', default: 'dist/release' }, sign: { type: 'string' } },
      ...{ runtimes: { type: 'string', default: 'dist/runtimes' } },
      ...{ level: { type: 'string', default: '6' }, url: { type: 'string', default: '' } },
      ...{ scope: { type: 'string', default: '@gateway' }, 'no-image': { type: 'boolean' } },
    },
  })
  if (values.help) {
    process.stdout.write(USAGE)
    process.exit()
  }
  const systems = findSystems(values.only)
  if (values.program !== undefined && systems.length !== 1)
    throw new Error('--program: expected one system in --only')
  if (!/^(https?:\/\/[^\s']+)?$/.test(values.url))
    throw new Error('--url: expected http:// or https://')
  if (!/^@[a-z0-9-]+$/.test(values.scope)) throw new Error('--scope: expected a name like @gateway')
  if (existsSync(values.out) && readdirSync(values.out).length > 0)
    throw new Error(`${values.out} is not empty: remove it first, or name another with --out`)
  mkdirSync(values.out, { recursive: true })
  return { ...values, systems }
}

function findSystems(only: string | undefined): System[] {
  const names = only?.split(',') ?? SYSTEMS.map(({ name }) => name)
  return names.map(name => {
    const system = SYSTEMS.find(one => one.name === name)
    if (system) return system
    throw new Error(`--only: expected ${SYSTEMS.map(one => one.name).join(', ')}, found ${name}`)
  })
}

function readKey(path: string) {
  const key = createPrivateKey(readFileSync(path))
  if (key.asymmetricKeyType === 'ed25519') return key
  throw new Error(`--sign: expected an Ed25519 key, found ${key.asymmetricKeyType}`)
}

/** Makes the files of the release one after the other, as all of them are some gigabytes. */
async function makeFiles(
  options: ReturnType<typeof readOptions>,
  write: (file: [name: string, bytes: Uint8Array | string]) => void,
): Promise<void> {
  const { systems, program, runtimes, level, url, scope } = options
  const { name: commit = 'unknown', seconds = 0 } = readCommit()
  if (!/^[0-9a-f]{40}$/.test(commit)) process.stderr.write(`release: its commit is ${commit}\n`)
  const packages = await listPackages()
  const contents = await listContents(renderLicenses(packages))
  const archiver = new Archiver(seconds, Number(level))
  const installer = readOwn('deploy/install.sh').toString()
  write(['Dockerfile', readOwn('deploy/Dockerfile')])
  write(['install.sh', installer.replace("FROM=''", () => `FROM='${url}'`)])
  write(['sbom.cdx.json', renderSbom(packages, seconds)])
  write(renderNpmMain(archiver, scope, SYSTEMS))
  const platforms: Platform[] = []
  for (const system of systems) {
    const bytes = program === undefined ? await buildFor(system, runtimes) : readFileSync(program)
    const entry = toProgram(system, bytes)
    for (const file of renderArchives(archiver, system, [...contents, entry])) write(file)
    write(renderNpmProgram(archiver, scope, system, entry))
    if (!system.debian) continue
    const { architecture, library } = system.debian
    write(renderDebian(archiver, architecture, [...contents, entry]))
    if (options['no-image']) continue
    const libraries = await readLibraries(library, runtimes)
    platforms.push({ architecture, program: entry, libraries })
  }
  if (platforms.length > 0) write(renderImage(archiver, commit, platforms))
}

function toProgram({ npm }: System, content: Uint8Array): Entry {
  return { path: npm.os === 'win32' ? 'gateway.exe' : 'gateway', content, mode: 0o755 }
}

/** Renders the archives of a system: its files in one directory of the archive's name. */
function renderArchives(
  archiver: Archiver,
  { name, npm }: System,
  entries: Entry[],
): [name: string, bytes: Uint8Array][] {
  const directory = `gateway-${VERSION}-${name}`
  const placed = entries.map(entry => ({ ...entry, path: `${directory}/${entry.path}` }))
  if (npm.os === 'win32') return [[`${directory}.zip`, archiver.zip(placed)]]
  const pieces = archiver.tar(placed)
  const gzip: [string, Uint8Array] = [`${directory}.tar.gz`, archiver.gzip(pieces)]
  return npm.os === 'linux' ? [gzip, [`${directory}.tar.zst`, archiver.zstd(pieces)]] : [gzip]
}
