import { realpathSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { readBundle } from './src/server/console/bundle.ts'

const OUTFILE = 'dist/gateway'

/** The functions that a start and its first calls run: `bun run start-order` writes them down. */
export const START_ORDER = 'src/cli/start.order'

/** How much later than usual code is compiled, until the server listens: most of it runs once. */
const START_PATIENCE = 20

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

/** Puts the program of the console's page into the executable: there is no compiler in it. */
const packConsole: Bun.BunPlugin = {
  name: 'packed-console',
  setup(build) {
    const packed = readBundle()
    const names = ['main.js', 'main.css']
    build.onLoad({ filter: /\/server\/console\/bundle\.ts$/ }, () => ({
      contents: `
${names.map((name, i) => `import part${i} from 'packed-console:${name}' with { type: 'file' }`).join('\n')}
const parts = { ${names.map((name, i) => `'${name}': part${i}`).join(', ')} }
const read = async ([name, path]) => [name, await Bun.file(path).bytes()]
export const readBundle = async () =>
  Object.fromEntries(await Promise.all(Object.entries(parts).map(read)))
`,
      loader: 'js',
    }))
    build.onResolve({ filter: /^packed-console:/ }, ({ path }) => ({
      ...{ namespace: 'packed-console', path: path.slice('packed-console:'.length) },
    }))
    build.onLoad({ filter: /./, namespace: 'packed-console' }, async ({ path }) => ({
      ...{ contents: (await packed)[path] ?? '', loader: 'file' },
    }))
  },
}

/** How the source of a vocabulary names its data: by no path, so that every build is the same. */
const PACKED = 'packed-vocabulary'

/**
 * Puts vocabularies into the executable as compressed data, which their first use unpacks. As
 * modules they would be there twice, as source and as bytecode of three times its size.
 */
const packVocabularies: Bun.BunPlugin = {
  name: 'packed-vocabularies',
  async setup(build) {
    const [sources, packed] = [new Map<string, string>(), new Map<string, Uint8Array>()]
    const findName = (path: string) => VOCABULARIES.find(name => path.endsWith(`/${name}`)) ?? ''
    for (const name of VOCABULARIES) {
      const exported = await import(realpathSync(join(import.meta.dir, 'node_modules', name)))
      const file = `${basename(name, '.js')}.zst`
      packed.set(file, packModule(exported))
      sources.set(name, renderUnpacking(`${PACKED}:${file}`, Object.keys(exported)))
    }
    build.onLoad({ filter: /\/(bpeRanks\/o200k_base|encoding\/claude)\.js$/ }, ({ path }) => {
      const contents = sources.get(findName(path))
      return contents === undefined ? undefined : { contents, loader: 'js' }
    })
    build.onResolve({ filter: new RegExp(`^${PACKED}:`) }, ({ path }) => ({
      ...{ namespace: PACKED, path: path.slice(PACKED.length + 1) },
    }))
    build.onLoad({ filter: /./, namespace: PACKED }, ({ path }) => ({
      ...{ contents: packed.get(path) ?? '', loader: 'file' },
    }))
  },
}

/** Compresses what a module exports. */
const packModule = (exported: object): Uint8Array =>
  Bun.zstdCompressSync(Buffer.from(JSON.stringify({ ...exported }, packValue)), { level: 10 })

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
export const OPTIONS = {
  // Each Worker is a program of its own. The first entry point is the one that starts.
  entrypoints: [
    'src/cli/start.ts',
    'src/translation/tokenizers/worker.ts',
    'src/extensions/documents/worker.ts',
    'src/observability/destinations/deliveries/renderer/worker.ts',
    'src/extensions/healing/worker.ts',
    'src/cli/config-file/worker.ts',
    'src/network/sandboxes/just-bash/worker.ts',
    'src/store/sqlite/inspection/worker.ts',
    'src/store/sqlite/write-log/worker.ts',
  ],
  // Workers are found by their paths within it.
  root: 'src',
  plugins: [withoutDevtools, packVocabularies, packConsole],
  target: 'bun',
  format: 'esm',
  splitting: true,
  minify: false,
  define: { 'process.env.NODE_ENV': '"production"' },
} satisfies Bun.BuildConfig

/** The commit of this checkout; nothing of one outside a checkout. */
export interface Commit {
  /** As git names it, with `-dirty` where files have been changed. */
  name: string | undefined
  /** When it was made, or what SOURCE_DATE_EPOCH says, in seconds. */
  seconds: number | undefined
}

/** Reads the commit of this checkout. */
export function readCommit(env: Record<string, string | undefined> = process.env): Commit {
  const seconds = env.SOURCE_DATE_EPOCH ?? runGit(env, 'log', '-1', '--format=%ct')
  return {
    name: runGit(env, 'describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'),
    seconds: seconds === undefined ? undefined : Number(seconds),
  }
}

/** Runs git on this directory, and on none above it; returns nothing where that fails. */
function runGit(env: Record<string, string | undefined>, ...args: string[]): string | undefined {
  if (Bun.which('git') === null) return
  const { stdout, success } = Bun.spawnSync(['git', '-C', import.meta.dir, ...args], {
    env: { ...env, GIT_CEILING_DIRECTORIES: dirname(import.meta.dir) },
    stderr: 'ignore',
  })
  return success ? stdout.toString().trim() : undefined
}

/** Returns what the program says of its commit, as definitions of the build. */
function defineCommit({ name, seconds }: Commit): Record<string, string> {
  const date = seconds === undefined ? undefined : new Date(seconds * 1000).toISOString()
  return {
    ...(name !== undefined && { BUILD_COMMIT: JSON.stringify(name) }),
    ...(date !== undefined && { BUILD_DATE: JSON.stringify(date.replace('.000', '')) }),
  }
}

/** What a program is built for, if not for this system and as it is. */
export interface BuildChoice {
  target?: Bun.Build.CompileTarget
  /** The file of the runtime. */
  executablePath?: string
  /** Whether it is the engine that builds: another one does not check bytecode, and crashes. */
  bytecode?: boolean
  /** Null to lay bytecode out as it comes. */
  bytecodeOrder?: null
}

/** Builds one executable that contains everything: the same bytes from the same files, anywhere. */
export async function buildProgram(outfile: string, choice: BuildChoice = {}): Promise<void> {
  const { bytecode = true, ...rest } = choice
  const result = await Bun.build({
    ...OPTIONS,
    define: { ...OPTIONS.define, ...defineCommit(readCommit()) },
    compile: {
      outfile,
      autoloadDotenv: false,
      autoloadBunfig: false,
      jitPolicy: START_PATIENCE,
      bytecodeOrder: bytecode && join(import.meta.dir, START_ORDER),
      ...rest,
    },
    bytecode,
  })
  rmSync(join(dirname(outfile), 'start.js.map'), { force: true })
  for (const message of result.logs) process.stderr.write(`${message}\n`)
  if (!result.success) process.exit(1)
}

if (import.meta.main) {
  await buildProgram(OUTFILE)
  const size = (Bun.file(OUTFILE).size / 1024 / 1024).toFixed(1)
  process.stdout.write(`${OUTFILE}: ${size} MiB\n`)
}
