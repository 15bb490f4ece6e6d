import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findProgram } from '../own-program.ts'
import { createExtent, type Extent, isFull, type Selection } from './cases.ts'
import {
  type Child,
  createCleanEnvironment,
  listLeashArguments,
  listPinArguments,
} from './children.ts'
import { getText } from './connection.ts'
import {
  CORES,
  type Contender,
  enableEverything,
  type Home,
  initGateway,
  renderSingleModelConfig,
  startFloor,
  startGateway,
  startNginx,
  startPortkey,
  startSockets,
  startUpstream,
} from './contenders.ts'
import type { Order, Outcome } from './generator.ts'
import type { StartUp } from './goals.ts'
import { checkLedger, type Ledger } from './ledger.ts'
import { createMachineReader, readVersions } from './machine.ts'
import { readResidentMb } from './procfs.ts'
import { createReport, type Report, type Skipped } from './report.ts'
import { runRounds, type Subject } from './rounds.ts'
import { computeSpread } from './statistics.ts'

/** How often each is measured, in a run of full length and in a shorter one. */
const TIMES = { full: { starts: 3, versions: 9 }, short: { starts: 1, versions: 3 } }
/** What a gateway does after its start has been done by then. */
const REST_MS = 500

/** Keeps a child, to end it where the run is ended. */
type Keep = (child: Pick<Child, 'stop'>) => unknown

/** Measures how a gateway starts on a data directory that has been used before. */
async function measureStartUp(
  home: Home,
  { isShort, keep }: { isShort: boolean; keep: Keep },
): Promise<StartUp> {
  const times = isShort ? TIMES.short : TIMES.full
  const answers = []
  const memory = []
  for (let start = 0; start < times.starts; start++) {
    const { answerMs, idleMb } = await measureStart(home, keep)
    answers.push(answerMs)
    memory.push(idleMb)
  }
  const [versionMs, idleMb] = [
    computeMedian(await measureVersions(home, times.versions)),
    computeMedian(memory),
  ]
  return {
    version_ms: versionMs,
    first_answer_ms: computeMedian(answers),
    idle_mb: idleMb > 0 ? idleMb : null,
  }
}

async function measureStart(home: Home, keep: Keep) {
  const began = performance.now()
  const gateway = await startGateway(home, 'start')
  keep(gateway)
  await getText(gateway.url, '/health')
  const answerMs = performance.now() - began
  await Bun.sleep(REST_MS)
  const idleMb = readResidentMb(gateway.pid)
  await gateway.stop('SIGTERM')
  return { answerMs, idleMb }
}

async function measureVersions({ program }: Home, times: number): Promise<number[]> {
  const waits = []
  for (let run = 0; run < times; run++) {
    const began = performance.now()
    await Bun.spawn([...program, '--version'], { stdio: ['ignore', 'ignore', 'ignore'] }).exited
    waits.push(performance.now() - began)
  }
  return waits
}

const computeMedian = (values: number[]) => Number(computeSpread(values).median.toFixed(1))

/** The load generator, as the benchmark asks it: a process that carries out one order at a time. */
class LoadGenerator {
  readonly #child: Bun.Subprocess<'pipe', 'pipe', 'inherit'>
  readonly #lines: AsyncIterator<string>

  private constructor(child: Bun.Subprocess<'pipe', 'pipe', 'inherit'>) {
    this.#child = child
    this.#lines = readLines(child.stdout)
  }

  /** Starts it beside the mock provider, and waits until it takes orders. */
  static async start(home: string): Promise<LoadGenerator> {
    const command = [...findProgram(), 'bench-part', 'load']
    const prefix = [...listLeashArguments(), ...listPinArguments(CORES.tools)]
    const child = Bun.spawn([...prefix, ...command], {
      ...{ stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' },
      ...{ cwd: home, env: createCleanEnvironment() },
    })
    process.once('exit', () => child.kill('SIGKILL'))
    const generator = new LoadGenerator(child)
    await generator.#readLine()
    return generator
  }

  /** Has one order carried out. Throws if the generator has ended. */
  async ask(order: Order): Promise<Outcome> {
    this.#child.stdin.write(`${JSON.stringify(order)}\n`)
    await this.#child.stdin.flush()
    return JSON.parse(await this.#readLine())
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#child.exited
  }

  async #readLine(): Promise<string> {
    const { value, done } = await this.#lines.next()
    if (done) throw new Error('The load generator has ended')
    return value
  }
}

async function* readLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of stream) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}

/** Every program that is compared, in the order in which it is shown. */
export const CONTENDERS = [
  'direct',
  'sockets',
  'nginx',
  'floor',
  'portkey',
  'ours',
  'ours-full',
] as const
export type ContenderName = (typeof CONTENDERS)[number]

/** What is measured, and for how long. */
export interface BenchOptions extends Selection {
  contenders: readonly ContenderName[]
}

/** The programs of a run, while they live. */
interface Field {
  home: string
  upstream: Child
  load: LoadGenerator
  contenders: Contender[]
  /** The data directories of the gateways, by their names. */
  homes: Map<string, Home>
  skipped: Skipped[]
}

/**
 * Runs the benchmark: a mock provider, a load generator and each contender in processes of their
 * own, in a temporary directory. Ends and removes all of them, also where it throws or the signal
 * is aborted, with the signal’s reason.
 */
export async function runBench(
  options: BenchOptions,
  signal: AbortSignal,
  progress: (line: string) => void,
): Promise<Report> {
  const home = mkdtempSync(join(tmpdir(), 'gateway-bench-'))
  const remove = () => rmSync(home, { recursive: true, force: true, maxRetries: 3 })
  process.once('exit', remove)
  const children = new Children(signal)
  const work = measure(options, home, { keep: child => children.keep(child), progress })
  try {
    return await Promise.race([work, rejectOnAbort(signal)])
  } finally {
    await children.stop()
    // What was being started when the signal came is kept, and ended, once it runs.
    await work.catch(() => undefined)
    await children.stop()
    remove()
    process.off('exit', remove)
  }
}

/** What a run has to end. */
class Children {
  readonly #signal: AbortSignal
  readonly #children: Pick<Child, 'stop'>[] = []

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  /** Keeps a child, to end it later. Throws if the run has been ended meanwhile. */
  keep<T extends Pick<Child, 'stop'>>(child: T): T {
    this.#children.push(child)
    this.#signal.throwIfAborted()
    return child
  }

  async stop(): Promise<void> {
    await Promise.all(this.#children.map(child => child.stop('SIGKILL')))
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  return promise
}

/** What a run hands over: what has to be ended, and how far it is. */
interface Course {
  keep<T extends Pick<Child, 'stop'>>(child: T): T
  progress(line: string): void
}

async function measure(options: BenchOptions, home: string, course: Course): Promise<Report> {
  const extent = createExtent(options)
  const field = await openField(options, extent, home, course)
  const start = await measureFirst(field, !isFull(options), course)
  const readMachine = createMachineReader()
  const samples = await runRounds({
    ...{ subjects: listSubjects(options, field), extent, upstream: field.upstream.url },
    ...{ cases: options.cases, progress: course.progress },
    ask: order => field.load.ask(order),
  })
  const machine = readMachine()
  const ledger = await checkLedgers(field, samples)
  const versions = readVersions(process.execPath)
  const { skipped } = field
  return createReport(samples, { start, ledger, skipped, extent, machine, versions })
}

async function openField(
  { contenders: names }: BenchOptions,
  { chunks, intervalMs }: Extent,
  home: string,
  { keep, progress }: Course,
): Promise<Field> {
  const load = keep(await LoadGenerator.start(home))
  const switches = { CHUNKS: `${chunks}`, INTERVAL_MS: `${intervalMs}` }
  const upstream = keep(await startUpstream(home, switches))
  const field: Field = { home, upstream, load, contenders: [], homes: new Map(), skipped: [] }
  for (const name of names.filter(one => one !== 'direct')) {
    progress(`starting ${name}`)
    const contender = await startContender(name, field)
    if (contender) field.contenders.push(keep(contender))
  }
  return field
}

/** Starts one contender. Returns null, and notes why, if it is another's and cannot be started. */
async function startContender(name: ContenderName, field: Field): Promise<Contender | null> {
  const home = join(field.home, name)
  if (name === 'floor') return startFloor(field.upstream, home)
  if (name === 'sockets') return startSockets(field.upstream, home)
  if (name === 'ours' || name === 'ours-full') return startOurs(name, field, home)
  const startOther = name === 'nginx' ? startNginx : startPortkey
  try {
    const contender = await startOther(field.upstream, home)
    if (!contender) field.skipped.push({ contender: name, why: 'not installed' })
    return contender
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown)
    field.skipped.push({ contender: name, why })
    return null
  }
}

async function startOurs(name: string, field: Field, directory: string): Promise<Contender> {
  const home = await initGateway(renderSingleModelConfig(field.upstream), directory)
  if (name === 'ours-full') await enableEverything(home, field.upstream)
  field.homes.set(name, home)
  return startGateway(home, name)
}

/** Measures how a gateway starts, if one takes part, on a directory of its own. */
async function measureFirst(
  { home, upstream, homes }: Field,
  isShort: boolean,
  { keep, progress }: Course,
) {
  if (homes.size === 0) return null
  progress('measuring the start')
  const prepared = await initGateway(renderSingleModelConfig(upstream), join(home, 'start'))
  return measureStartUp(prepared, { isShort, keep })
}

const listSubjects = ({ contenders }: BenchOptions, field: Field): Subject[] => [
  ...(contenders.includes('direct')
    ? [{ name: 'direct', target: { url: field.upstream.url, key: 'none' }, pid: null }]
    : []),
  ...field.contenders.map(({ name, target, pid }) => ({ name, target, pid })),
]

async function checkLedgers(
  { contenders, homes }: Field,
  samples: Parameters<typeof checkLedger>[2],
): Promise<Ledger[]> {
  const ledgers = []
  for (const contender of contenders) {
    const home = homes.get(contender.name)
    if (home) ledgers.push(await checkLedger(contender, home, samples))
  }
  return ledgers
}
