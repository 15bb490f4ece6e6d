import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../src/app/gateway.ts'
import { pinSelf } from '../src/cli/bench/children.ts'
import { runClosedLoop } from '../src/cli/bench/generator.ts'
import { createThreadCpuReader } from '../src/cli/bench/procfs.ts'
import { computeSpread, type Spread, shuffle } from '../src/cli/bench/statistics.ts'
import type { Target } from '../src/cli/bench/wire.ts'
import type { ExportedCall } from '../src/observability/destinations/exported-call.ts'
import type { DestinationType } from '../src/observability/destinations/kind.ts'
import { createDestination, pauseDestination } from '../src/observability/destinations.ts'
import { getOperator } from '../src/resources/actor.ts'
import { createKey } from '../src/resources/keys.ts'
import { createWorkspace, updateWorkspace } from '../src/resources/workspaces.ts'
import { openDatabase } from '../test/support/database.ts'
import {
  CORES,
  type Contender,
  ensureGateway,
  renderSingleModelConfig,
  startGateway,
  startUpstream,
} from './contenders.ts'

/*
 * `bun run bench/destinations.ts [SLICES] [ROUNDS] [BACKLOG]`: what destinations cost calls, as
 * dist/gateway (or GATEWAY_BIN) serves them. 60 slices, 15 rounds and a backlog of a million
 * messages without arguments; no slices or no rounds leave that part out. Ends with 1 if a limit is
 * broken.
 *
 * First the CPU time for each call (user and system, to the scheduler's precision: of all threads,
 * and of the one that serves calls) with none to three destinations: of one server, which is asked
 * for a short time with the key of one workspace after the other, so that they share whatever else
 * the machine does. The destinations are paused: what is written down for later is all that a call
 * pays. Then the same with webhooks and with collectors that take everything at once, with all that
 * is sent. Then the slowest calls beside a destination that cannot be reached, for which an hour's
 * messages wait up to the queue's bound. Last the slowest calls while one that is back takes them.
 */

const [slices = '60', rounds = '15', backlog = '1000000'] = process.argv.slice(2)
const SLICES = readCount(slices, 'slices')
const ROUNDS = readCount(rounds, 'rounds')
const BACKLOG = readCount(backlog, 'messages')

/** The most microseconds of CPU that the first destination adds to a call, and each other. */
const [FIRST_US, OTHER_US] = [8, 3]
/** The most milliseconds that the unreachable destination adds to the slowest hundredth. */
const P99_MS = 1
/** The most milliseconds that a call waits while a destination that is back takes what has waited. */
const SLOWEST_MS = 250

const SLICE = { connections: 10, calls: 800, seconds: 20 }
const WARM_UP = { ...SLICE, calls: 6_000 }
const P99_LOAD = { connections: 2, calls: 4_000, seconds: 20 }
/** Long enough for what is written, and sent, after an answer. */
const [WRITTEN_MS, SENT_MS] = [50, 900]
const HOUR_MS = 3_600_000

/** A workspace with its destinations, and how many messages wait for each before it starts. */
interface Place {
  slug: string
  type: ReceiverType
  urls: string[]
  isPaused: boolean
  waiting: number
}

type ReceiverType = Extract<DestinationType, 'webhook' | 'otel-collector'>

const print = (text: string) => void process.stdout.write(`${text}\n`)
const home = mkdtempSync(join(tmpdir(), 'gateway-bench-'))
process.once('exit', () => rmSync(home, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(1))

/** Prints what each destination adds to a call, and returns whether that keeps the limits. */
async function reportCpu(url: string, type: ReceiverType, isPaused: boolean): Promise<boolean> {
  if (SLICES === 0) return true
  const places = [0, 1, 2, 3].map(count => ({
    slug: `with-${count}`,
    type,
    urls: Array.from({ length: count }, () => `${url}/traces`),
    isPaused,
    waiting: 0,
  }))
  const contender = await start(isPaused ? 'paused' : type, url, places)
  const subjects = contender.keys.map(key => ({
    ...contender,
    target: { url: contender.url, key },
  }))
  const pause = isPaused ? WRITTEN_MS : SENT_MS
  const count = isPaused ? SLICES : Math.ceil(SLICES / 4)
  const found = await takeTurns(subjects, count, subject => measureCpu(subject, pause))
  await contender.stop('SIGKILL')
  print(`destinations of type ${type} that are ${isPaused ? 'paused' : 'told'}, CPU a call:`)
  const added = reportThreads('all', 'all threads', found)
  reportThreads('main', "the calls' thread", found)
  if (!isPaused) return true
  const [first = Number.NaN, ...more] = added
  print(`  limits: ${FIRST_US} µs for the first, ${OTHER_US} µs for each other`)
  return first <= FIRST_US && more.every(one => one <= OTHER_US)
}

/** Prints what a call costs some threads, and returns what each destination adds. */
function reportThreads(threads: keyof CpuTimes, name: string, found: CpuTimes[][]): number[] {
  const figures = found.map(times => times.map(time => time[threads]))
  const base = computeSpread(figures[0] ?? []).median
  print(`  ${name}, none: ${base.toFixed(1)} µs`)
  const added = figures.slice(1).map((own, i) => comparePairs(own, figures[i] ?? []))
  added.forEach((spread, i) => {
    const share = (spread.median / base) * 100
    print(`  ${name}, destination ${i + 1} adds ${show(spread, 'µs')}, ${share.toFixed(1)} %`)
  })
  return added.map(({ median }) => median)
}

/** Prints what an unreachable destination adds to the slowest calls. */
async function reportBacklog(url: string): Promise<boolean> {
  if (ROUNDS === 0) return true
  const urls = ['http://127.0.0.1:9/traces']
  const far: Place = { slug: 'place', type: 'webhook', urls, isPaused: false, waiting: BACKLOG }
  const beside = await start('beside', url, [far])
  const alone = await start('alone', url, [{ ...far, urls: [], waiting: 0 }])
  const subjects = [alone, beside].map(child => ({
    ...child,
    target: { url: child.url, key: child.keys[0] ?? '' },
  }))
  const [without = [], within = []] = await takeTurns(subjects, ROUNDS, measureSlowest)
  await Promise.all([alone, beside].map(child => child.stop('SIGKILL')))
  const added = comparePairs(within, without)
  print(`the slowest hundredth, ${BACKLOG} messages waiting for a destination out of reach:`)
  print(`  none: ${computeSpread(without).median.toFixed(2)} ms`)
  print(`  it adds ${show(added, 'ms')}; limit: ${P99_MS} ms`)
  return added.median <= P99_MS
}

/** Prints how long the slowest calls wait while a destination that is back takes what has waited. */
async function reportReturn(url: string): Promise<boolean> {
  if (ROUNDS === 0) return true
  const urls = [`${url}/traces`]
  const place: Place = { slug: 'place', type: 'webhook', urls, isPaused: false, waiting: BACKLOG }
  const contender = await start('back', url, [place])
  const target = { url: contender.url, key: contender.keys[0] ?? '' }
  const loops = []
  const began = performance.now()
  for (let round = 0; round < ROUNDS; round++) loops.push(await runClosedLoop(target, P99_LOAD))
  const seconds = (performance.now() - began) / 1000
  const sent = countDelivered(join(home, 'back', 'data'))
  await contender.stop('SIGKILL')
  const slowest = Math.max(...loops.map(({ slowestMs }) => slowestMs))
  const p99 = computeSpread(loops.map(({ p99Ms }) => p99Ms)).median
  print(`calls while a destination takes what has waited, ${BACKLOG} messages:`)
  print(`  ${Math.round(sent / seconds)} messages a second, ${sent} in all`)
  print(`  the slowest hundredth ${p99.toFixed(2)} ms`)
  print(`  the slowest ${slowest.toFixed(2)} ms; limit: ${SLOWEST_MS} ms`)
  return slowest <= SLOWEST_MS && loops.every(({ errors }) => errors === 0)
}

function countDelivered(data: string): number {
  const db = openDatabase(data, { readonly: true })
  const { sent } = db
    .query<{ sent: number }, []>('select total(delivered) as sent from delivery_counts')
    .get() ?? { sent: 0 }
  db.close()
  return sent
}

interface Subject {
  pid: number
  target: Target
}

/** Microseconds of CPU for each call. */
type CpuTimes = Record<'all' | 'main', number>

async function measureCpu({ pid, target }: Subject, pause: number): Promise<CpuTimes> {
  const readCpu = createThreadCpuReader(pid)
  const { calls, errors } = await runClosedLoop(target, SLICE)
  await Bun.sleep(pause)
  if (errors > 0) throw new Error(`${errors} calls failed`)
  const { all, main } = readCpu()
  return { all: all / calls, main: main / calls }
}

async function measureSlowest({ target }: Subject): Promise<number> {
  const { p99Ms, errors } = await runClosedLoop(target, P99_LOAD)
  if (errors > 0) throw new Error(`${errors} calls failed`)
  return p99Ms
}

/** Warms up, and measures one subject after the other, in a new order each time. */
async function takeTurns<Figure>(
  subjects: Subject[],
  count: number,
  take: (subject: Subject) => Promise<Figure>,
): Promise<Figure[][]> {
  const taken = subjects.map((subject): { subject: Subject; figures: Figure[] } => ({
    subject,
    figures: [],
  }))
  for (const { target } of subjects) await runClosedLoop(target, WARM_UP)
  await Bun.sleep(SENT_MS)
  for (let turn = 0; turn < count; turn++)
    for (const { subject, figures } of shuffle(taken)) figures.push(await take(subject))
  return taken.map(({ figures }) => figures)
}

/** Compares two variants round by round. */
const comparePairs = (some: number[], others: number[]): Spread =>
  computeSpread(some.map((figure, i) => figure - (others[i] ?? Number.NaN)))

const show = ({ median, least, most }: Spread, unit: string): string =>
  `${median.toFixed(2)} ${unit} (${least.toFixed(2)} to ${most.toFixed(2)})`

/** Starts a server with these workspaces, and returns the key of each. */
async function start(
  name: string,
  url: string,
  places: Place[],
): Promise<Contender & { keys: string[] }> {
  const data = join(home, name, 'data')
  mkdirSync(data, { recursive: true })
  writeFileSync(join(data, 'gateway.yaml'), renderConfig(url))
  const keys = await prepare(data, places)
  return { ...(await startGateway(keys[0] ?? '', join(home, name))), keys }
}

// As many may wait as there are: so each call beyond them drops one, as after a long outage.
const renderConfig = (url: string): string =>
  `${renderSingleModelConfig({ url })}
security: { allow_private_urls: ["${new URL(url).host}", "127.0.0.1:9"] }
telemetry: { queue_mib: 16384, queue_rows: ${Math.max(BACKLOG, 1_000_000)} }
`

async function prepare(data: string, places: Place[]): Promise<string[]> {
  const gateway = await openGateway({ data })
  const operator = getOperator(gateway)
  const keys: string[] = []
  for (const { slug, type, urls, isPaused, waiting } of places) {
    gateway.config.security.allow_private_urls.push(...urls.map(url => new URL(url).host))
    const { id } = (await createWorkspace(gateway, operator, { name: slug, slug })).data
    await updateWorkspace(gateway, operator, id, { is_observability_broadcast_enabled: true })
    const ids: string[] = []
    for (const url of urls) ids.push(await addReceiver(gateway, { type, url }, id, isPaused))
    keys.push((await createKey(gateway, operator, { name: slug, workspace_id: id })).key)
    if (waiting > 0) fillQueue(data, ids, waiting)
  }
  await gateway.close()
  return keys
}

async function addReceiver(
  gateway: Gateway,
  { type, url }: { type: ReceiverType; url: string },
  workspace_id: string,
  isPaused: boolean,
): Promise<string> {
  const operator = getOperator(gateway)
  const config = type === 'webhook' ? { url } : { endpoint: url }
  const receiver = { type, name: 'receiver', config, workspace_id }
  const { id } = (await createDestination(gateway, operator, receiver)).data
  if (isPaused) await pauseDestination(gateway, operator, id)
  return id
}

/** A call of which nothing but facts is told. */
const TOLD: ExportedCall = {
  id: 'gen-0',
  workspace_id: '',
  key_hash: null,
  region: 'global',
  session_id: null,
  facts: {
    kind: 'text',
    model: 'bench/model',
    author: 'bench',
    providerName: 'local',
    finishReason: 'stop',
    nativeFinishReason: 'stop',
    error: null,
    userId: null,
    sessionId: null,
    apiKeyName: 'bench',
    streamed: false,
    startedAt: 0,
    endedAt: 1,
    firstTokenMs: 1,
    promptTokens: 60,
    completionTokens: 160,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    inputCost: 0,
    outputCost: 0,
    totalCost: 0,
    parameters: {},
  },
  input: null,
  output: null,
  trace: null,
  attempts: [],
  steps: [],
  groups: {},
}

/** Adds messages as calls of the last hour would have left them. */
function fillQueue(data: string, ids: string[], count: number): void {
  const db = openDatabase(data)
  const payload = JSON.stringify(TOLD)
  const addMessage = db.query(
    `insert into outbox (topic, generation_id, payload, created_at) values ('trace', ?, ?, ?)`,
  )
  const addDelivery = db.query(
    'insert into deliveries (destination_id, sequence, bytes) values (?, ?, ?)',
  )
  const since = Date.now() - HOUR_MS
  const add = (from: number, to: number) => {
    for (let i = from; i < to; i++) {
      const at = new Date(since + (i * HOUR_MS) / count).toISOString()
      const { lastInsertRowid } = addMessage.run(`gen-${i}`, payload, at)
      for (const id of ids) addDelivery.run(id, lastInsertRowid, payload.length)
    }
  }
  for (let from = 0; from < count; from += 50_000)
    db.transaction(add).immediate(from, Math.min(count, from + 50_000))
  db.close()
}

function readCount(text: string, what: string): number {
  const count = Number(text)
  if (Number.isInteger(count) && count >= 0) return count
  throw new Error(`expected a number of ${what}: ${text}`)
}

await ensureGateway()
pinSelf(CORES.tools)
const { url } = await startUpstream(home, {})
const isKept = [
  await reportCpu(url, 'webhook', true),
  await reportCpu(url, 'webhook', false),
  await reportCpu(url, 'otel-collector', false),
  await reportBacklog(url),
  await reportReturn(url),
]
print(isKept.every(Boolean) ? 'Within its limits.' : 'A limit is broken.')
process.exit(isKept.every(Boolean) ? 0 : 1)
