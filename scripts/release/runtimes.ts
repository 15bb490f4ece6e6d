import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { buildProgram } from '../../build.ts'
import { type Entry, readTar } from './archives.ts'
import { type Library, RUNTIME_VERSION, type System } from './systems.data.ts'

/**
 * Builds the program for a system, from the runtime in a folder or, where it is not there, from npm,
 * which is kept there. Throws where its sum is another one than ours.
 */
export function buildFor(system: System, folder: string): Promise<Uint8Array> {
  const runtime = readRuntime(system, folder)
  return withDirectory(async directory => {
    const [executablePath, outfile] = [join(directory, 'runtime'), join(directory, 'gateway')]
    writeFileSync(executablePath, runtime, { mode: 0o755 })
    await buildProgram(outfile, {
      target: `bun-${system.name}` as Bun.Build.CompileTarget,
      executablePath,
      // Bytecode fits the engine that made it, and this one ran the build.
      bytecode: runtime.equals(readFileSync(process.execPath)),
    })
    return readFileSync(existsSync(outfile) ? outfile : `${outfile}.exe`)
  })
}

/** Calls with a temporary directory, and removes it. */
async function withDirectory<T>(use: (directory: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-release-'))
  try {
    return await use(directory)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

function readRuntime({ runtime }: System, folder: string): Buffer {
  const name = `${runtime.package.replace('@', '').replace('/', '-')}-${RUNTIME_VERSION}.tgz`
  const file = resolve(folder, name)
  if (!existsSync(file)) fetchPackage(`${runtime.package}@${RUNTIME_VERSION}`, folder)
  const bytes = readFileSync(file)
  const sum = `sha512-${Bun.CryptoHasher.hash('sha512', bytes, 'base64')}`
  if (sum !== runtime.integrity) throw new Error(`${file} is not ${runtime.integrity}`)
  const program = readTar(gunzipSync(bytes)).find(({ path }) => path.startsWith('package/bin/'))
  return Buffer.from(program?.content ?? '')
}

function fetchPackage(id: string, folder: string): void {
  mkdirSync(folder, { recursive: true })
  const command = ['npm', 'pack', '--silent', '--pack-destination', resolve(folder), id]
  const { success, stderr } = Bun.spawnSync(command)
  if (!success) throw new Error(`npm pack ${id}: ${stderr.toString().trim()}`)
}

/**
 * Reads what a program needs of the C library, from its Debian package in a folder or from Debian,
 * which is kept there. Throws where its sum is another one than ours.
 */
export async function readLibraries(library: Library, folder: string): Promise<Entry[]> {
  const path = resolve(folder, library.file)
  if (!existsSync(path)) await fetchLibrary(library, path)
  const bytes = readFileSync(path)
  if (Bun.SHA256.hash(bytes, 'hex') !== library.sha256)
    throw new Error(`${path} is not ${library.sha256}`)
  const { stdout, success, stderr } = Bun.spawnSync(['dpkg-deb', '--fsys-tarfile', path])
  if (!success) throw new Error(`dpkg-deb ${path}: ${stderr}`)
  return readTar(stdout)
    .map(entry => ({ ...entry, path: entry.path.replace(/^\.\//, '') }))
    .filter(({ path }) => NEEDED.test(path))
}

/** The loader, the parts that the program names and those that look names up; and the licence. */
const NEEDED =
  /^lib\d*\/(.*\/)?(ld-linux-.*|lib(c|dl|m|pthread|resolv|nss_dns|nss_files))\.so\.\d$|\/copyright$/

async function fetchLibrary({ file, sha1 }: Library, path: string): Promise<void> {
  mkdirSync(dirname(path), { recursive: true })
  const current = `https://deb.debian.org/debian/pool/main/g/glibc/${encodeURIComponent(file)}`
  for (const url of [current, `https://snapshot.debian.org/file/${sha1}`]) {
    const response = await fetch(url)
    if (response.ok) return void writeFileSync(path, await response.bytes())
  }
  throw new Error(`${file} is at none of Debian's addresses: put it into ${dirname(path)}`)
}
