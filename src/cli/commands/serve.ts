import { closeSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { GatewayError, invalid } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Handed, Predecessor } from '../../core/handover/predecessor.ts'
import type { Successor } from '../../core/handover/successor.ts'
import { toPrintableJson } from '../../core/kernel/printable.ts'
import type { GivenSocket } from '../../server/listen/given-socket.ts'
import type { ConfigWatch } from '../config-file/watch.ts'
import type { ConfigFile } from '../config-file.ts'
import { getDataDirectory, hasData } from '../data-directory.ts'
import { LEVELS, LOG_FORMATS, type Log } from '../log.ts'
import {
  addPlaceOptions,
  type CommonOptions,
  loadConfig,
  parseNumber,
  toGatewayParts,
} from '../options.ts'
import { print } from '../output.ts'
import { findLockHolder, renderHolder } from '../system-errors/holders.ts'
import { describeListenError } from '../system-errors.ts'
import { logBugs } from './serve/bugs.ts'
import { createServerLog, getCause, type LogOptions } from './serve/log.ts'
import type { Offer } from './serve/offer.ts'
import { finish, limitStop } from './serve/stop.ts'
import type { Taken } from './serve/takeover.ts'

interface ServeOptions extends CommonOptions, LogOptions {
  host?: string
  port?: number
  drain: number
  takeover?: boolean
}

/** `gateway serve`: runs the server. Only this command knows the server. */
export const createServeCommand = () =>
  addPlaceOptions(new Command('serve').description('serve the API'))
    .option('--host <address>', 'the address to listen on (GATEWAY_HOST; 127.0.0.1)')
    .option('--port <n>', 'the port; 0 picks a free one (GATEWAY_PORT; 8080)', parseNumber)
    .option(
      '--takeover',
      'take over from the server that runs there: nobody is refused, and its answers are finished',
    )
    .option(
      '--drain <seconds>',
      'how long running answers may continue after SIGTERM',
      parseDrain,
      30,
    )
    .addOption(new Option('--log <format>', 'how lines look').choices(LOG_FORMATS).default('text'))
    .addOption(
      new Option('--log-level <level>', 'the least that is logged').choices(LEVELS).default('info'),
    )
    .option('--no-access-log', 'no line for each call')
    .action(serve)

const LONGEST_DRAIN = 86_400

function parseDrain(text: string): number {
  const seconds = parseNumber(text)
  if (seconds < 0 || seconds > LONGEST_DRAIN)
    throw new InvalidArgumentError(`expected seconds from 0 to ${LONGEST_DRAIN}`)
  return seconds
}

async function serve(options: ServeOptions): Promise<void> {
  const configFile = await loadConfig(options)
  const place = readPlace(options, configFile)
  const parts = toGatewayParts(options, configFile)
  const { takeSystemdSocket } = await import('./serve/systemd.ts')
  const given = await takeSystemdSocket(findAddressFlag(options))
  const taken = await takeFrom(options, parts.data, place)
  const { lockData } = await import('../../core/store/lock.ts')
  const isNew = !hasData(parts.data)
  const handed = (await taken?.takeData()) ?? null
  const unlock = explainLock(parts.data, () => lockData(parts.data))
  const { openGateway } = await import('../../core/gateway.ts')
  const gateway = await openGateway({ ...parts, busyTimeout: 0, access: 'server' })
  const { Predecessor } = await import('../../core/handover/predecessor.ts')
  const predecessor = new Predecessor(gateway, parts.data, unlock)
  const log = createServerLog(options, gateway)
  const socket = taken?.main ?? given
  const serving = { gateway, options, configFile, isNew, log, predecessor, given: socket, taken }
  const succession = taken && handed ? await succeed(serving, taken, handed) : null
  await runServer({ ...serving, succession, place: takePlace(place, socket) })
  await gateway.close()
  await predecessor.end().catch(() => process.exit(1))
  process.exit(0)
}

/** Asks the server that runs to hand over, if that is wanted. Null if there is none. */
async function takeFrom(
  { takeover }: ServeOptions,
  data: string,
  place: ListenPlace,
): Promise<Taken | null> {
  if (!takeover) return null
  const { takeOver } = await import('./serve/takeover.ts')
  return takeOver(data, place)
}

/** Keeps the books for the server before this one, until that has ended. */
async function succeed(
  { gateway, log, options }: Pick<Serving, 'gateway' | 'log' | 'options'>,
  taken: Taken,
  handed: Handed,
): Promise<Successor> {
  const { Successor } = await import('../../core/handover/successor.ts')
  const successor = new Successor(gateway, taken.channel, getDataDirectory(options), handed)
  void successor.ended.then(recovered => {
    taken.close()
    if (recovered === 0) log('info', 'takeover.ended', {})
    else log('warn', 'calls.recovered', { calls: recovered, consequence: RECOVERED })
  })
  return successor
}

const RECOVERED = 'they are charged their last known cost'

/** Where a server listens, and what changes the port. */
interface ListenPlace {
  host: string
  port: number
  flag: string
}

function explainListen<T>(place: ListenPlace, listen: () => T): T {
  try {
    return listen()
  } catch (thrown) {
    const message = describeListenError(thrown, place)
    throw message === undefined ? thrown : new Error(message, { cause: thrown })
  }
}

function splitAddress({ config }: Gateway): ListenPlace {
  const address = config.server.metrics_address ?? ''
  const colon = address.lastIndexOf(':')
  const [host, port] = [address.slice(0, colon), Number(address.slice(colon + 1))]
  return { host, port, flag: 'server.metrics_address' }
}

function explainLock<T>(data: string, lock: () => T): T {
  try {
    return lock()
  } catch (thrown) {
    if (!(thrown instanceof GatewayError) || thrown.type !== 'conflict') throw thrown
    const holder = renderHolder(findLockHolder(join(data, 'serve.lock')))
    throw thrown.with({ message: `${thrown.message}${holder && `: it is held${holder}`}` })
  }
}

/** What the steps in the life of a server share. */
interface Serving {
  gateway: Gateway
  options: ServeOptions
  configFile: ConfigFile
  /** Whether the data directory had no data before. */
  isNew: boolean
  log: Log
  place: ListenPlace
  /** The socket that it serves on, where somebody else has opened it. */
  given: GivenSocket | null
  /** The server before this one, whose calls may still run; null without a takeover. */
  taken: Taken | null
  succession: Successor | null
  /** What hands over to the next server. */
  predecessor: Predecessor
}

/** Serves from the first connection to the last answer, or until another server has taken over. */
async function runServer(serving: Serving): Promise<void> {
  logBugs(serving.log)
  await prepare(serving)
  const stopped = waitForStop()
  const watch = await watchConfig(serving)
  const listeners = await openListeners(serving)
  const work = new Work(serving, watch)
  const { offer, silence } = await offerHandover(serving, listeners, work)
  await logConfigFile(serving)
  await announce(serving, listeners)
  await notifySystemd(serving, `READY=1\nMAINPID=${process.pid}`)
  serving.gateway.warm.pool.fill(serving.gateway)
  await work.start()
  if (await Promise.race([stopped.then(() => false), offer.left.then(() => true)]))
    return finishAnswers(serving, listeners, stopped)
  await notifySystemd(serving, 'STOPPING=1')
  limitStop(serving, serving.options.drain * 1000)
  // Lines that run end with the calls of clients.
  await Promise.all([work.stopBatches(), drain(serving, listeners), waitForPredecessor(serving)])
  silence()
  await work.stop()
  await finish(serving)
}

/** What a server does beside calls. Another server takes it over with the data directory. */
class Work {
  readonly #serving: Serving
  readonly #watch: ConfigWatch
  #stops: (() => unknown)[] = []
  #batches: Promise<() => Promise<void>> | null = null
  #isRunning = false

  constructor(serving: Serving, watch: ConfigWatch) {
    this.#serving = serving
    this.#watch = watch
  }

  async start(): Promise<void> {
    const { gateway, succession } = this.#serving
    this.#isRunning = true
    gateway.rollups.start()
    this.#stops.push(await startTimers(this.#serving, this.#watch))
    await gateway.deliveries.start()
    this.#stops.push(() => gateway.deliveries.stop())
    await gateway.videos.start()
    this.#stops.push(() => gateway.videos.stop())
    const { MetricsExport } = await import('../../core/destinations/metrics-export.ts')
    const metricsExport = new MetricsExport(gateway)
    this.#stops.push(() => metricsExport.stop())
    // Lines of the server before this one run to their end there.
    if (succession) void succession.ended.then(() => this.#startBatches())
    else await this.#startBatches()
  }

  async stopBatches(): Promise<void> {
    this.#isRunning = false
    const stop = await this.#batches
    this.#batches = null
    await stop?.()
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    for (const stop of this.#stops.splice(0).toReversed()) await stop()
  }

  /** Stops all but the lines of batches that run. */
  async pause(): Promise<void> {
    void this.stopBatches()
    await this.stop()
  }

  async #startBatches(): Promise<void> {
    if (!this.#isRunning || this.#batches) return
    this.#batches = startBatches(this.#serving)
    await this.#batches
  }
}

/** Tells its state, and hands over to the next server when that asks. */
async function offerHandover(
  serving: Serving,
  listeners: Listeners,
  work: Work,
): Promise<{ offer: Offer; silence(): void }> {
  const { Offer } = await import('./serve/offer.ts')
  const { gateway, options, predecessor, log } = serving
  let silence: () => void = () => undefined
  const offer = new Offer({
    ...{ gateway, predecessor, log, ports: listeners.ports, data: getDataDirectory(options) },
    pauseWork: () => work.pause(),
    resumeWork: () => work.start(),
    turnAway() {
      listeners.turnAway()
      silence()
      silence = () => undefined
    },
  })
  silence = await tellStatus(serving, listeners, offer)
  return { offer, silence: () => silence() }
}

/** Gives the server before this one time to finish its answers: this one writes what they cost. */
async function waitForPredecessor({ succession, options }: Serving): Promise<void> {
  await Promise.race([succession?.ended, Bun.sleep(options.drain * 1000)])
}

/** In milliseconds: how long clients may use the connections that they keep, and between looks. */
const LINGER = 5_000
const LOOK_PAUSE = 50

/**
 * Finishes all answers, however long they take, since another server has taken over. A signal ends
 * them as it ends a server.
 */
async function finishAnswers(
  serving: Serving,
  listeners: Listeners,
  stopped: Promise<void>,
): Promise<void> {
  const { gateway, log } = serving
  const { calls, readOns } = gateway.traffic
  log('info', 'handed.over', { running: calls.size })
  const journal = setInterval(() => updateJournal(gateway), CHECKPOINT_INTERVAL)
  const changes = scheduleWork(CHANGES_ELSEWHERE_INTERVAL, () => gateway.catchUp())
  let isStopped = false
  void stopped.then(() => {
    isStopped = true
  })
  const countConnections = await openConnectionCount(listeners)
  const isBusy = () => calls.size > 0 || readOns.size > 0 || listeners.busy > 0
  const isOver = (waited: number) => !isBusy() && (waited >= LINGER || countConnections() === 0)
  for (let waited = 0; !isStopped && !isOver(waited); waited += LOOK_PAUSE) {
    if (waited >= LINGER) listeners.closeIdle()
    await Bun.sleep(LOOK_PAUSE)
  }
  clearInterval(changes)
  if (isStopped) limitStop(serving, serving.options.drain * 1000)
  await (isStopped ? drain(serving, listeners) : listeners.stop(0))
  clearInterval(journal)
  await finish(serving)
}

async function openConnectionCount({ ports: [port = 0] }: Listeners): Promise<() => number> {
  const { openListenerCalls } = await import('../../core/kernel/listener-calls.ts')
  const calls = await openListenerCalls()
  return () => calls?.countConnections(port) ?? 0
}

function updateJournal({ journal, traffic }: Gateway): void {
  try {
    journal.holds.updateSpent(traffic.calls.listProgress())
  } catch {
    // The next look tries again.
  }
}

/** In milliseconds: changes at the server that has taken over are read within this time. */
const CHANGES_ELSEWHERE_INTERVAL = 2_000

// A server that systemd does not hear of serves all the same.
async function notifySystemd({ log }: Serving, text: string): Promise<void> {
  const { notifySystemd } = await import('./serve/systemd.ts')
  await notifySystemd(text).catch(thrown =>
    log('warn', 'systemd.unreachable', {
      cause: getCause(thrown),
      consequence: 'it may take the server for one that does not start',
    }),
  )
}

/** Where a server is reached, and how it stops listening. */
interface Listeners {
  url: string
  metrics_url: string | null
  ports: number[]
  /** How many requests are being answered. */
  readonly busy: number
  closeIdle(): void
  turnAway(): void
  /** Stops taking connections, and waits so many milliseconds for running answers. */
  stop(drain: number): Promise<void>
}

async function openListeners(serving: Serving): Promise<Listeners> {
  const { gateway, log, place, given, taken } = serving
  const { listen } = await import('../../server/listen.ts')
  const { listenForMetrics } = await import('../../server/listen/metrics.ts')
  await taken?.serve()
  const metricsPlace = splitAddress(gateway)
  const metrics = explainListen(metricsPlace, () =>
    listenForMetrics(gateway, taken?.findSocket(metricsPlace.port)),
  )
  const server = explainListen(place, () => listen(gateway, place.host, place.port, given))
  if (metrics) log('info', 'metrics.listening', { url: metrics.url })
  await warnOfFewDescriptors(log)
  return {
    url: server.url,
    metrics_url: metrics?.url ?? null,
    ports: [server.port, ...(metrics ? [metrics.port] : [])],
    get busy() {
      return server.busy
    },
    closeIdle: () => server.closeIdle(),
    turnAway: () => server.turnAway(),
    async stop(drain) {
      await server.stop(drain)
      await metrics?.stop()
    },
  }
}

/** Fewer file descriptors are few: each running call takes two. */
const FEW_DESCRIPTORS = 1_024

// Bun has raised the soft limit to the hard one by now.
async function warnOfFewDescriptors(log: Log): Promise<void> {
  const { readDescriptorLimit } = await import('../../core/kernel/machine.ts')
  const limit = readDescriptorLimit()
  if (limit >= FEW_DESCRIPTORS) return
  log('warn', 'descriptors.few', {
    limit,
    consequence: `more than ${Math.floor(limit / 2)} calls at once are refused (ulimit -Hn)`,
  })
}

/** Tells where the server is. Stops listening and throws what prevents it. */
async function announce(serving: Serving, { url, stop }: Listeners): Promise<void> {
  try {
    await printStart(serving, url)
  } catch (thrown) {
    await stop(0)
    throw thrown
  }
}

// Keys are made once nothing can fail any more, and only for a person: a log would keep them.
async function printStart(
  { gateway, options, configFile, isNew, log }: Serving,
  url: string,
): Promise<void> {
  const { listStartFacts, printBanner } = await import('./serve/banner.ts')
  const { createFirstKeys } = await import('../../core/identity/workspaces.ts')
  const { findSkippedConfig, listConfigPaths } = await import('../config-file.ts')
  const data = getDataDirectory(options)
  const skipped = findSkippedConfig(listConfigPaths(options.config, data))
  const isWatched = options.log === 'text' && process.stdout.isTTY
  const keys = isWatched ? await createFirstKeys(gateway) : undefined
  const start = { url, data, isNew, configFile, skipped, keys }
  if (options.log === 'text') return printBanner(gateway, start)
  log('info', 'started', listStartFacts(gateway, start))
  print(toPrintableJson({ time: new Date().toISOString(), level: 'info', event: 'listening', url }))
}

// A file system without sockets serves all the same.
async function tellStatus(
  { gateway, options, configFile: { file }, log }: Serving,
  { url, metrics_url }: Listeners,
  offer: Offer,
): Promise<() => void> {
  const core = await import('./serve/status.ts')
  try {
    return core.tellStatus(gateway, {
      ...{ data: getDataDirectory(options), url, metrics_url, file },
      beginHandover: request => offer.begin(request),
    })
  } catch (thrown) {
    const consequence = 'gateway status cannot ask this server'
    log('warn', 'status.unavailable', { cause: getCause(thrown), consequence })
    return () => undefined
  }
}

/** Starts the work on batches, and returns the function that ends it. */
async function startBatches({ gateway, log }: Serving): Promise<() => Promise<void>> {
  const { createBatchRunner } = await import('../../core/batches/runner.ts')
  const runner = createBatchRunner(gateway)
  gateway.events.on('batch.ended', ({ id, status, completed, failed }) =>
    log('info', 'batch.ended', { id, status, completed, failed }),
  )
  gateway.events.on('batch.failing', ({ id, error }) =>
    log('warn', 'batch.failing', { id, cause: getCause(error), consequence: 'it is tried again' }),
  )
  await runner.start()
  return () => runner.stop()
}

const LOG_HELD = 'a process that reads the database keeps its log from being shortened: it grows'

function logWriteLog({ events }: Gateway, log: Serving['log']): void {
  events.on('write-log.held', ({ bytes }) =>
    log('warn', 'write-log.held', { bytes, consequence: LOG_HELD }),
  )
  events.on('write-log.released', ({ bytes }) => log('info', 'write-log.released', { bytes }))
}

/** Starts what a server does at intervals, and returns the function that stops it. */
async function startTimers({ gateway, log }: Serving, watch: ConfigWatch): Promise<() => void> {
  const { evictRows } = await import('../../core/telemetry/retention.ts')
  const { writeCheckpoint } = await import('../../core/inference/recover.ts')
  logWriteLog(gateway, log)
  const timers = [
    watchForChanges(gateway),
    scheduleWork(EVICTION_INTERVAL, () => evictRows(gateway)),
    scheduleWork(CHECKPOINT_INTERVAL, () => writeCheckpoint(gateway)),
    scheduleWork(WRITE_LOG_INTERVAL, () => gateway.writeLog.keepShort()),
    setInterval(() => void watch.look(), LOOK_INTERVAL),
  ]
  return () => timers.forEach(clearInterval)
}

async function drain({ gateway, options, log }: Serving, { stop }: Listeners): Promise<void> {
  log('info', 'draining', { running: gateway.traffic.calls.size })
  await stop(options.drain * 1000)
}

/** Says what runs the commands of models, and what it lacks: what it has may be the server’s alone. */
function logSandbox({
  gateway: { config, sandboxes },
  log,
}: Pick<Serving, 'gateway' | 'log'>): void {
  const { kind } = config.sandbox
  const sandbox = sandboxes.find(({ name }) => name === kind)
  if (!sandbox) return
  const { obstacle, missing } = sandbox
  const level = obstacle === null ? 'info' : 'warn'
  log(level, 'sandbox.tried', { kind, holds: obstacle === null, missing: obstacle ?? missing })
}

/** Runs the checks and the recovery that come before the first call. Throws where a check fails. */
async function prepare(serving: Serving): Promise<void> {
  const { gateway, log } = serving
  const { verifyLedgerEnd, recoverCalls } = await import('../../core/inference/recover.ts')
  const { listUnreadableByokKeys } = await import('../../core/catalog/byok.ts')
  const { isEmbedded } = await import('../../core/catalog/models/built-in.ts')
  for (const key of listUnreadableByokKeys(gateway)) gateway.events.publish('byok.unreadable', key)
  await verifyLedgerEnd(gateway)
  if (!isEmbedded()) gateway.catalog.getBuiltIn()
  const { probeSandbox } = await import('../../core/sandboxes/registry.ts')
  await probeSandbox(gateway)
  logSandbox({ gateway, log })
  const { sweepBlobs } = await import('../../core/containers.ts')
  // Calls need no files: a bucket that is not there keeps no server from starting.
  const isAlone = await recoverServerBefore(serving)
  const swept = await (isAlone ? sweepBlobs(gateway) : Promise.resolve(0)).catch(thrown => {
    if (!(thrown instanceof GatewayError)) throw thrown
    log('error', 'files.unreachable', { reason: thrown.message })
    return 0
  })
  if (swept > 0)
    log('warn', 'files.swept', {
      files: swept,
      consequence: 'uploads that a killed process left were deleted',
    })
  const { calls, garbled } = await recoverCalls(gateway)
  await gateway.videos.load()
  if (garbled.lines > 0)
    log('error', 'holds.garbled', {
      ...garbled,
      consequence:
        'what is not on record was charged at what can be read of it; the lines are kept ' +
        '(holds.log.garbled)',
    })
  if (calls > 0)
    log('warn', 'calls.recovered', {
      calls,
      consequence: 'they are charged their last known cost',
    })
}

/** Finds what names an address on the command line or in the environment. */
const findAddressFlag = ({ host, port }: ServeOptions): string | undefined =>
  [
    ['--host', host],
    ['--port', port],
    ['GATEWAY_HOST', process.env.GATEWAY_HOST],
    ['GATEWAY_PORT', process.env.GATEWAY_PORT],
  ].find(([, value]) => value)?.[0] as string | undefined

const takePlace = (place: ListenPlace, given: GivenSocket | null): ListenPlace =>
  given ? { ...place, host: given.socket.host, port: given.socket.port } : place

/**
 * Settles the calls of a server that has handed over to one that is gone. Returns false where it
 * still runs: then they are held, and settled when it has ended.
 */
async function recoverServerBefore({ gateway, log, options, taken }: Serving): Promise<boolean> {
  if (taken) return false
  const { holdBefore, recoverBefore } = await import('../../core/handover/before.ts')
  const data = getDataDirectory(options)
  const recover = async () => {
    const recovery = await recoverBefore(gateway, data)
    if (recovery && recovery.calls > 0)
      log('warn', 'calls.recovered', { calls: recovery.calls, consequence: RECOVERED })
    return recovery !== null
  }
  if (await recover()) return true
  const release = holdBefore(gateway, data)
  const timer = scheduleWork(LOOK_INTERVAL, async () => {
    if (!(await recover())) return
    clearInterval(timer)
    release()
  })
  return false
}

function readPlace(options: ServeOptions, { config }: ConfigFile): ListenPlace {
  const host = options.host ?? process.env.GATEWAY_HOST ?? config.server.host
  const port =
    options.port ??
    (process.env.GATEWAY_PORT ? parseNumber(process.env.GATEWAY_PORT) : config.server.port)
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw invalid('port: expected an integer from 0 to 65535')
  return { host, port, flag: '--port, GATEWAY_PORT' }
}

/** In milliseconds. A killed process may forget to charge this much of an answer. */
const CHECKPOINT_INTERVAL = 1_000

/** In milliseconds, between two looks at the length of the store’s log. */
const WRITE_LOG_INTERVAL = 1_000

/** In milliseconds. Rows whose time is over are removed within this time. */
const EVICTION_INTERVAL = 60_000

/** In milliseconds. Changes by another process are applied within this time. */
const CHANGES_INTERVAL = 50

// `gateway keys create` runs while the server does. Its write changes the store's version, which
// takes microseconds to read.
const watchForChanges = (gateway: Gateway) =>
  scheduleWork(CHANGES_INTERVAL, () => gateway.catchUp())

/**
 * Runs the work at an interval in milliseconds, and skips a turn while it still runs: requests to a
 * slow store do not pile up. A failure is left to the next turn.
 */
function scheduleWork(milliseconds: number, work: () => Promise<unknown>): NodeJS.Timeout {
  let isRunning = false
  const runOnce = async () => {
    if (isRunning) return
    isRunning = true
    await work().catch(() => undefined)
    isRunning = false
  }
  return setInterval(() => void runOnce(), milliseconds)
}

/**
 * In milliseconds, between two looks at the config file. A change is applied when two looks have
 * found the same file.
 */
const LOOK_INTERVAL = 1_000

// Which file was read is known from nothing else: a wrong directory would be served with defaults.
async function logConfigFile({
  options,
  configFile: { file, environment },
  log,
}: Serving): Promise<void> {
  const { findSkippedConfig, listConfigPaths } = await import('../config-file.ts')
  const skipped = findSkippedConfig(listConfigPaths(options.config, getDataDirectory(options)))
  const read = { file: file === null ? 'none' : resolve(file) }
  log('info', 'config.read', skipped === undefined ? read : { ...read, skipped })
  for (const { slug, variable, reason } of environment.ignored)
    log('warn', 'environment.ignored', { variable, provider: slug, reason })
}

// From here on a hangup reloads the config. If the terminal was closed, it ends the server instead.
async function watchConfig({ gateway, options, configFile }: Serving): Promise<ConfigWatch> {
  const { listConfigPaths } = await import('../config-file.ts')
  const { ConfigWatch } = await import('../config-file/watch.ts')
  const watch = new ConfigWatch(
    gateway,
    listConfigPaths(options.config, getDataDirectory(options)),
    configFile,
  )
  const hadTerminal = process.stderr.isTTY
  process.on('SIGHUP', () => {
    if (hadTerminal && !hasTerminal()) process.kill(process.pid, 'SIGTERM')
    else void watch.reload()
  })
  return watch
}

function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}

// The first signal drains the server. The second ends it at once.
function waitForStop(): Promise<void> {
  return new Promise(resolve => {
    let stopping = false
    const stop = () => {
      if (stopping) process.exit(1)
      stopping = true
      resolve()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}
