import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CaseName, Extent } from './cases.ts'
import type { Child } from './children.ts'
import {
  CORES,
  type Contender,
  type Home,
  initGateway,
  renderSingleModelConfig,
  startFloor,
  startGateway,
  startNginx,
  startPortkey,
  startUpstream,
  switchEverythingOn,
} from './contenders.ts'
import { checkLedger, type Ledger } from './ledger.ts'
import { LoadGenerator } from './load-generator.ts'
import { createMachineReader, readVersions } from './machine.ts'
import { createReport, type Report, type Skipped } from './report.ts'
import { runRounds, type Subject } from './rounds.ts'
import { measureStartUp } from './start-up.ts'

/** Every program that is compared, in the order in which it is shown. */
export const CONTENDERS = ['direct', 'nginx', 'floor', 'portkey', 'ours', 'ours-full'] as const
export type ContenderName = (typeof CONTENDERS)[number]

/** What is measured, and for how long. */
export interface BenchOptions {
  seconds: number
  rate: number
  contenders: readonly ContenderName[]
  cases: readonly CaseName[]
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

/** How many streams there are in a run of full length, as the goals have it. */
const STREAMS = 200
/** In seconds: a shorter run has fewer streams, and one round. */
const SHORT = 30
const MOST_ROUNDS = 5
/** The share of the time that loops get; the rest is for streams, the start and the warm-up. */
const SHARE_OF_LOOPS = 0.4
const SHORTEST_LOOP = 0.1

/**
 * Runs the benchmark: a mock provider, a load generator and each contender in processes of their
 * own, in a temporary directory. Ends and removes all of them, also where it throws or the signal
 * is aborted.
 */
export async function runBench(
  options: BenchOptions,
  signal: AbortSignal,
  progress: (line: string) => void,
): Promise<Report> {
  const home = mkdtempSync(join(tmpdir(), 'gateway-bench-'))
  const remove = () => rmSync(home, { recursive: true, force: true, maxRetries: 3 })
  process.once('exit', remove)
  const children: Pick<Child, 'stop'>[] = []
  try {
    const work = measure(options, home, { children, progress })
    return await Promise.race([work, rejectOnAbort(signal)])
  } finally {
    await Promise.all(children.map(child => child.stop('SIGKILL')))
    remove()
    process.off('exit', remove)
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  return promise
}

/** What a run hears of: what it has to end, and whom it tells how far it is. */
interface Course {
  children: Pick<Child, 'stop'>[]
  progress(line: string): void
}

async function measure(options: BenchOptions, home: string, course: Course): Promise<Report> {
  const extent = createExtent(options)
  const field = await openField(options, extent, home, course)
  const start = await measureFirst(field, course)
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

/** Decides how much is done in the time. */
export function createExtent({ seconds, rate, contenders, cases }: BenchOptions): Extent {
  const isShort = seconds < SHORT
  const rounds = Math.min(MOST_ROUNDS, Math.max(1, Math.floor(seconds / (SHORT / 1.5))))
  const loops = (rounds + 1) * contenders.length * cases.length
  return {
    rounds,
    loopSeconds: Math.max(SHORTEST_LOOP, (seconds * SHARE_OF_LOOPS) / loops),
    rate,
    streams: isShort ? STREAMS / 4 : STREAMS,
    chunks: isShort ? 8 : 20,
    intervalMs: isShort ? 10 : 25,
  }
}

async function openField(
  { contenders: names }: BenchOptions,
  { chunks, intervalMs }: Extent,
  home: string,
  { children, progress }: Course,
): Promise<Field> {
  const keep = <T extends Pick<Child, 'stop'>>(child: T): T => {
    children.push(child)
    return child
  }
  const load = keep(await LoadGenerator.start(CORES.tools))
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
  if (name === 'ours-full') await switchEverythingOn(home, field.upstream)
  field.homes.set(name, home)
  return startGateway(home, name)
}

/** Measures how a gateway starts, if one takes part, on a directory of its own. */
async function measureFirst({ home, upstream, homes }: Field, { children, progress }: Course) {
  if (homes.size === 0) return null
  progress('measuring the start')
  const prepared = await initGateway(renderSingleModelConfig(upstream), join(home, 'start'))
  return measureStartUp(prepared, child => children.push(child))
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
