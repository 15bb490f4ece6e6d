import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Bug, listBugs, plantBug } from './mutants/bugs.ts'
import {
  chooseTests,
  type Durations,
  getDuration,
  type Imports,
  readImports,
} from './mutants/tests.ts'

const USAGE = `bun run mutants [--seed N] [--count N] [--room ROOM] [--seconds N]

Plants small bugs at random places of src/ in a copy of the tree, one at a time, and runs the tests
nearest to each: is it noticed? Prints each that survives. The same seed plants the same bugs.

  --seed N      which bugs (default: any)
  --count N     how many bugs (default: 16)
  --room ROOM   only below src/ROOM, such as engine or store/blobs
  --seconds N   how long the tests of one bug may take, as test/timings.json has them (default: 60)
`

const ROOT = join(import.meta.dir, '..')
/** What a file of tests gets at least, and how many times what it took when it was timed. */
const LEAST_PATIENCE = 30_000
const PATIENCE = 5

interface Planted extends Bug {
  path: string
}

/** A copy of the tree, whose tests can be run. */
interface Copy {
  directory: string
  imports: Imports
  durations: Durations
  /** Tests that fail in the copy without a bug: they judge none. */
  broken: Set<string>
  /** Tests that pass there. */
  sound: Set<string>
}

type Outcome = { what: 'changes nothing' | 'survived' } | { what: 'killed'; by: string }

await main()

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: String(Date.now() % 100_000) },
      count: { type: 'string', default: '16' },
      room: { type: 'string', default: '' },
      seconds: { type: 'string', default: '60' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return void process.stdout.write(USAGE)
  const copy = makeCopy()
  const remove = (): void => rmSync(copy.directory, { recursive: true, force: true })
  process.once('SIGINT', () => process.exit(130)).once('SIGTERM', () => process.exit(143))
  process.once('exit', remove)
  process.stdout.write(`seed ${values.seed}\n`)
  const counts = { killed: 0, survived: 0, 'changes nothing': 0 }
  for (const bug of drawBugs(values.room, Number(values.count), Number(values.seed))) {
    const outcome = await judge(copy, bug, Number(values.seconds) * 1000)
    counts[outcome.what] += 1
    const by = outcome.what === 'killed' ? ` by ${outcome.by}` : ''
    process.stdout.write(`${outcome.what}${by}: ${bug.path}:${bug.line} ${bug.change}\n`)
  }
  const { killed, survived } = counts
  const share = Math.round((100 * killed) / Math.max(1, killed + survived))
  process.stdout.write(
    `${killed} killed, ${survived} survived, ${counts['changes nothing']} change nothing: ` +
      `${share} % of those that change something\n`,
  )
}

/** Copies what is in the tree, written down or not, with its packages as a link. */
function makeCopy(): Copy {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-mutants-'))
  const listed = ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const { stdout } = Bun.spawnSync(listed, { cwd: ROOT })
  for (const path of stdout.toString().split('\0').filter(Boolean))
    cpSync(join(ROOT, path), join(directory, path), { recursive: true, force: true })
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  const { files } = JSON.parse(readFileSync(join(ROOT, 'test/timings.json'), 'utf8'))
  const imports = readImports(directory)
  return { directory, imports, durations: files, broken: new Set(), sound: new Set() }
}

function drawBugs(room: string, count: number, seed: number): Planted[] {
  const paths = [...new Bun.Glob(`src/**/*.{ts,tsx}`).scanSync(ROOT)]
    .filter(path => path.startsWith(`src/${room}`) && !/\.(d|data)\.ts$/.test(path))
    .sort()
  const all = paths.flatMap(path =>
    listBugs(path, readFileSync(join(ROOT, path), 'utf8')).map(bug => ({ ...bug, path })),
  )
  const random = createRandom(seed)
  const drawn = Array.from({ length: Math.min(count, all.length) }, () =>
    all.splice(Math.floor(random() * all.length), 1),
  )
  return drawn.flat()
}

/** Returns a source of numbers in [0, 1) that are the same for a seed (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Plants a bug in the copy, runs the tests near it until one fails, and takes it out again. */
async function judge(copy: Copy, bug: Planted, limit: number): Promise<Outcome> {
  const file = join(copy.directory, bug.path)
  const text = readFileSync(file, 'utf8')
  const mutant = plantBug(text, bug)
  if (compileText(bug.path, mutant) === compileText(bug.path, text))
    return { what: 'changes nothing' }
  for (const test of chooseTests(bug.path, copy.imports, copy.durations, limit)) {
    if (copy.broken.has(test)) continue
    writeFileSync(file, mutant)
    const isPassed = await runTest(copy, test)
    writeFileSync(file, text)
    if (!isPassed && (await isSound(copy, test))) return { what: 'killed', by: test }
  }
  return { what: 'survived' }
}

function compileText(path: string, text: string): string {
  const loader = path.endsWith('x') ? 'tsx' : 'ts'
  return new Bun.Transpiler({ loader, minifyWhitespace: true }).transformSync(text)
}

/** Tells whether a file of tests passes without a bug. */
async function isSound(copy: Copy, test: string): Promise<boolean> {
  if (copy.sound.has(test)) return true
  const isPassed = await runTest(copy, test)
  ;(isPassed ? copy.sound : copy.broken).add(test)
  return isPassed
}

/** Runs a file of tests until one fails. One that does not end in time has failed. */
async function runTest(copy: Copy, test: string): Promise<boolean> {
  const patience = Math.max(LEAST_PATIENCE, PATIENCE * getDuration(copy.durations, test))
  const child = Bun.spawn(
    ['bun', 'test', '--no-isolate', '--bail=1', '--timeout', String(patience), test],
    { cwd: copy.directory, stdin: 'ignore', stdout: 'ignore', stderr: 'ignore', timeout: patience },
  )
  return (await child.exited) === 0
}
