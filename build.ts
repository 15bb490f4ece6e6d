import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

const OUTFILE = 'dist/gateway'

/** Ink imports React's development tools, which are not installed: a stub stands for them. */
const withoutDevtools: Bun.BunPlugin = {
  name: 'without-devtools',
  setup(build) {
    const path = join(import.meta.dir, 'src/cli/tui/devtools-stub.ts')
    build.onResolve({ filter: /^react-devtools-core$/ }, () => ({ path }))
  },
}

/** The vocabularies of the tokenizers: modules of megabytes that hold nothing but data. */
const VOCABULARIES = [
  'gpt-tokenizer/esm/bpeRanks/o200k_base.js',
  'ai-tokenizer/dist/encoding/claude.js',
]

/**
 * Puts vocabularies into the executable as compressed data, which their first use unpacks. As
 * modules they would be there twice, as source and as bytecode of three times its size.
 */
async function createPacking(directory: string): Promise<Bun.BunPlugin> {
  const sources = new Map<string, string>()
  for (const name of VOCABULARIES) {
    const path = realpathSync(join(import.meta.dir, 'node_modules', name))
    sources.set(path, await packModule(path, join(directory, `${basename(name, '.js')}.zst`)))
  }
  return {
    name: 'packed-vocabularies',
    setup(build) {
      const filter = /\/(o200k_base|claude)\.js$/
      build.onLoad({ filter }, ({ path }) => {
        const contents = sources.get(path)
        return contents === undefined ? undefined : { contents, loader: 'js' }
      })
    },
  }
}

/** Writes what a module exports into a file, and returns the source that reads it. */
async function packModule(path: string, file: string): Promise<string> {
  const exported = await import(path)
  const json = JSON.stringify({ ...exported }, packValue)
  writeFileSync(file, Bun.zstdCompressSync(Buffer.from(json), { level: 19 }))
  return renderUnpacking(file, Object.keys(exported))
}

/** Converts what JSON does not have: bytes, and objects that inherit nothing. */
function packValue(_: string, value: unknown): unknown {
  if (value instanceof Uint8Array) return { $bytes: [...value] }
  const isBare = typeof value === 'object' && value !== null && !Object.getPrototypeOf(value)
  return isBare ? { $bare: { ...value } } : value
}

const renderUnpacking = (file: string, names: string[]) => `
import { readFileSync } from 'node:fs'
import file from ${JSON.stringify(file)} with { type: 'file' }
const unpack = (_, value) =>
  value?.$bytes ? Uint8Array.from(value.$bytes)
    : value?.$bare ? Object.assign(Object.create(null), value.$bare) : value
const data = JSON.parse(Bun.zstdDecompressSync(readFileSync(file)).toString(), unpack)
${names.map(name => `const x_${name} = data[${JSON.stringify(name)}]`).join('\n')}
export { ${names.map(name => `x_${name} as ${name}`).join(', ')} }
`

/**
 * Returns what makes the program. It ignores `.env` and `bunfig.toml` of the directory that it is
 * started in: those files may belong to another program. Not minified: Elysia reads its handlers'
 * source text.
 */
export const createOptions = async (directory: string) =>
  ({
    // Each Worker is a program of its own. The first entry point is the one that starts.
    entrypoints: [
      'src/cli/start.ts',
      'src/core/tokenizers/worker.ts',
      'src/core/documents/worker.ts',
      'src/core/healing/worker.ts',
      'src/core/sandboxes/just-bash/worker.ts',
      'src/core/store/sqlite/inspection/worker.ts',
    ],
    plugins: [withoutDevtools, await createPacking(directory)],
    target: 'bun',
    format: 'esm',
    splitting: true,
    minify: false,
    define: { 'process.env.NODE_ENV': '"production"' },
  }) satisfies Bun.BuildConfig

/** Builds one executable that contains everything. */
async function buildProgram(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-build-'))
  const result = await Bun.build({
    ...(await createOptions(directory)),
    compile: { outfile: OUTFILE, autoloadDotenv: false, autoloadBunfig: false },
    bytecode: true,
  }).finally(() => rmSync(directory, { recursive: true }))
  rmSync('dist/start.js.map', { force: true })
  for (const message of result.logs) process.stderr.write(`${message}\n`)
  if (!result.success) process.exit(1)
  const size = (Bun.file(OUTFILE).size / 1024 / 1024).toFixed(1)
  process.stdout.write(`${OUTFILE}: ${size} MiB\n`)
}

if (import.meta.main) await buildProgram()
