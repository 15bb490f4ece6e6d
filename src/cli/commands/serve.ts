import { join, resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { GatewayParts } from '../../app/gateway.ts'
import type { Handed } from '../../app/handover/predecessor.ts'
import type { Successor } from '../../app/handover/successor.ts'
import { GatewayError, invalid } from '../../base/errors.ts'
import { toPrintableJson } from '../../base/printable.ts'
import type { Migration } from '../../store/migration-guard.ts'
import type { ConfigWatch } from '../config-file/watch.ts'
import type { ConfigFile } from '../config-file.ts'
import { getDataDirectory, hasData, listWorkers } from '../data-directory.ts'
import { LEVELS, LOG_FORMATS, type Log } from '../log.ts'
import { addPlaceOptions, loadConfig, parseNumber, toGatewayParts } from '../options.ts'
import { print } from '../output.ts'
import { findLockHolder, renderHolder } from '../system-errors/holders.ts'
import { drain, giveNotice, type Listeners, openListeners } from './serve/listeners.ts'
import { createServerLog, getCause } from './serve/log.ts'
import type { Offer } from './serve/offer.ts'
import type { ServeOptions } from './serve/place.ts'
import {
  findAddressFlag,
  type ListenPlace,
  parsePort,
  readPlace,
  takePlace,
} from './serve/place.ts'
import { prepare } from './serve/prepare.ts'
import { RECOVERED, type Serving } from './serve/serving.ts'
import { finish, hasTerminal, limitStop, waitForStop } from './serve/stop.ts'
import type { Taken } from './serve/takeover.ts'
import { Work } from './serve/work.ts'
import type { Worker } from './serve/worker.ts'

/** `gateway serve`: runs the server. Only this command knows the server. */
export const createServeCommand = () =>
  addPlaceOptions(new Command('serve').description('serve the API'))
    .option('--host <address>', 'the address to listen on (GATEWAY_HOST; 127.0.0.1)')
    .option('--port <n>', 'the port; 0 picks a free one (GATEWAY_PORT; 8080)', parsePort)
    .option(
      '--takeover',
      'take over from the server that runs there: no call is refused, and its answers are finished',
    )
    .option(
      '--workers <n>',
      'so many servers behind the port, each a process, over storage.postgres; auto: one for each core',
      parseWorkers,
    )
    .addOption(new Option('--worker-number <n>').argParser(Number).hideHelp())
    .addOption(new Option('--worker-silence <s>').argParser(parseSilence).hideHelp())
    .option(
      '--drain <seconds>',
      'how long running answers may continue after SIGTERM',
      parseDrain,
      30,
    )
    .option(
      '--notice <seconds>',
      'how long after SIGTERM calls are taken on, while /ready tells balancers to send none',
      parseDrain,
      0,
    )
    .addOption(new Option('--log <format>', 'how lines look').choices(LOG_FORMATS).default('text'))
    .addOption(
      new Option('--log-level <level>', 'the least that is logged').choices(LEVELS).default('info'),
    )
    .option('--no-access-log', 'no line for each call')
    .action(serveOrEnd)

/** Of Postgres each takes a few connections, of which it has a hundred. */
const MOST_WORKERS = 64

function parseWorkers(text: string): number | 'auto' {
  const count = /^\d{1,2}$/.test(text) ? Number(text) : 0
  if (text === 'auto') return text
  if (count < 1 || count > MOST_WORKERS)
    throw new InvalidArgumentError(`expected a whole number from 1 to ${MOST_WORKERS}, or auto`)
  return count
}

const LONGEST_DRAIN = 86_400

function parseDrain(text: string): number {
  const seconds = parseNumber(text)
  if (seconds < 0 || seconds > LONGEST_DRAIN)
    throw new InvalidArgumentError(`expected seconds from 0 to ${LONGEST_DRAIN}`)
  return seconds
}

function parseSilence(text: string): number {
  const seconds = parseDrain(text)
  if (seconds < 1) throw new InvalidArgumentError(`expected seconds from 1 to ${LONGEST_DRAIN}`)
  return seconds
}

/** In milliseconds: how long a server that could not start may take to say why. */
const LAST_WORDS = 200

// What a takeover has opened would keep a process that has failed, and its lock.
async function serveOrEnd(options: ServeOptions): Promise<void> {
  try {
    await serve(options)
  } catch (thrown) {
    setTimeout(() => process.exit(), LAST_WORDS).unref()
    throw thrown
  }
}

async function serve(options: ServeOptions): Promise<void> {
  const configFile = await loadConfig(options)
  const place = readPlace(options, configFile)
  const own = toGatewayParts(options, configFile)
  refuseTakeover(options, own)
  if (options.workerSilence !== undefined && options.workers === undefined)
    throw invalid('--worker-silence: expected --workers beside it')
  if (options.workers !== undefined && options.workerNumber === undefined)
    return serveByWorkers(options, configFile, place)
  const worker = await openWorker(options)
  const parts = { ...own, ...worker?.parts }
  const { takeSystemdSocket } = await import('./serve/systemd.ts')
  const given = await takeSystemdSocket(findAddressFlag(options))
  const taken = await takeOverServer(options, parts.data, place)
  const { lockData } = await import('../../store/sqlite/lock.ts')
  const isNew = !hasData(parts.data, parts.config)
  const handed = (await taken?.takeData()) ?? null
  const unlock = explainLock(parts.data, () => lockData(parts.data))
  await settleWorkersBefore(options, own)
  const { openGateway } = await import('../../app/gateway.ts')
  const migrations: Migration[] = []
  const onMigration = (migration: Migration) => void migrations.push(migration)
  const gateway = await openGateway({
    ...parts,
    ...{ busyTimeout: 0, access: 'server', onMigration, requiresOwnSecret: true },
  })
  const { Predecessor } = await import('../../app/handover/predecessor.ts')
  const predecessor = new Predecessor(gateway, parts.data, unlock)
  const log = createServerLog(options, gateway)
  // What two servers allowed at once, no limit would have allowed.
  gateway.events.on('node.lost', () => process.exit(1))
  for (const migration of migrations) log('info', 'store.migrated', { ...migration })
  const socket = taken?.main ?? given
  const served = { gateway, options, configFile, data: parts.data, worker }
  const serving = { ...served, isNew, log, predecessor, given: socket, taken }
  const succession = taken && handed ? await succeed(serving, taken, handed) : null
  await runServer({ ...serving, succession, place: takePlace(place, socket) })
  await gateway.close()
  await predecessor.end().catch(() => process.exit(1))
  process.exit(0)
}

/** Runs several servers in processes of their own, while this one has the data directory. */
async function serveByWorkers(
  options: ServeOptions,
  configFile: ConfigFile,
  place: ListenPlace,
): Promise<never> {
  const { superviseWorkers } = await import('./serve/workers.ts')
  const { lockData } = await import('../../store/sqlite/lock.ts')
  const data = getDataDirectory(options)
  const lock = () => explainLock(data, () => lockData(data))
  return superviseWorkers({ options, configFile, place, lock })
}

/** Opens the place of one of several servers; null where this is no such server. */
async function openWorker({
  workerNumber,
  workers,
  ...options
}: ServeOptions): Promise<Worker | null> {
  if (workerNumber === undefined) return null
  const { Worker } = await import('./serve/worker.ts')
  return new Worker(getDataDirectory(options), workerNumber, Number(workers ?? 0))
}

/** Settles what several servers have left, where there is one from now on. */
async function settleWorkersBefore(
  { workerNumber }: ServeOptions,
  { config, data }: Pick<GatewayParts, 'config' | 'data'>,
): Promise<void> {
  if (!config.storage.postgres || workerNumber !== undefined || listWorkers(data).length === 0)
    return
  const { settleWorkers } = await import('./serve/workers.ts')
  await settleWorkers(data, 0)
}

// Its books would be in two places.
function refuseTakeover(
  { takeover }: ServeOptions,
  { config: { storage } }: Pick<GatewayParts, 'config'>,
): void {
  if (takeover && storage.postgres)
    throw invalid(
      '--takeover: not with storage.postgres: stop the server that runs, and start this one',
    )
}

/** Asks the server that runs to hand over, if that is wanted. Null if there is none. */
async function takeOverServer(
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
  const { Successor } = await import('../../app/handover/successor.ts')
  const successor = new Successor(gateway, taken.channel, getDataDirectory(options), handed)
  void successor.ended.then(recovered => {
    taken.close()
    if (recovered === 0) log('info', 'takeover.ended', {})
    else log('warn', 'calls.recovered', { calls: recovered, consequence: RECOVERED })
  })
  return successor
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

/** Serves from the first connection to the last answer, or until another server has taken over. */
async function runServer(serving: Serving): Promise<void> {
  logBugs(serving.log)
  await prepare(serving)
  if (serving.worker?.settles) return serving.worker.noteSettled(() => finish(serving))
  const stopped = waitForStop(
    () => process.exit(1),
    [waitForDrain(serving), ...(serving.worker ? [serving.worker.waitForParent()] : [])],
  )
  const watch = await watchConfig(serving)
  const { listen } = await import('../../server/listen.ts')
  const { listenForMetrics } = await import('../../server/listen/metrics.ts')
  const listeners = await openListeners(serving, { listen, listenForMetrics })
  const work = new Work(serving, watch)
  const { offer, silence } = await offerHandover(serving, listeners, work)
  await logConfigFile(serving)
  await announce(serving, listeners)
  serving.worker?.tellParent()
  await notifySystemd(serving, `READY=1\nMAINPID=${process.pid}`)
  serving.gateway.warm.pool.fill(serving.gateway)
  await work.start()
  if (await Promise.race([stopped.then(() => false), offer.left.then(() => true)]))
    return (await import('./serve/handed-over.ts')).finishAnswers(serving, listeners, stopped)
  await notifySystemd(serving, 'STOPPING=1')
  await giveNotice(serving, listeners)
  limitStop(serving, serving.options.drain * 1000)
  // Lines that run end with the calls of clients.
  await Promise.all([work.stopBatches(), drain(serving, listeners), waitForPredecessor(serving)])
  silence()
  await work.stop()
  await finish(serving)
}

/** Tells its state, and hands over to the next server when that asks. */
async function offerHandover(
  serving: Serving,
  listeners: Listeners,
  work: Work,
): Promise<{ offer: Offer; silence(): void }> {
  const { Offer } = await import('./serve/offer.ts')
  const { gateway, predecessor, log } = serving
  let silence: () => void = () => undefined
  const offer = new Offer({
    ...{ gateway, predecessor, log, ports: listeners.ports, data: serving.data },
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

// A file system without sockets serves all the same.
async function tellStatus(
  { gateway, options, configFile: { file, config }, log, data, worker }: Serving,
  { url, metrics_url }: Listeners,
  offer: Offer,
): Promise<() => void> {
  const core = await import('./serve/status.ts')
  try {
    return core.tellStatus(gateway, {
      ...{ data, home: getDataDirectory(options), url, metrics_url, file, worker },
      store: config.storage.postgres ? 'postgres' : 'directory',
      beginHandover: request => offer.begin(request),
    })
  } catch (thrown) {
    const consequence = 'gateway status cannot ask this server'
    log('warn', 'status.unavailable', { cause: getCause(thrown), consequence })
    return () => undefined
  }
}

// Any server of the database may drain this one.
const waitForDrain = ({ gateway, log }: Serving): Promise<void> =>
  new Promise(resolve => {
    const endListening = gateway.events.on('node.drained', ({ reason }) => {
      endListening()
      log('warn', 'node.drained', { reason, consequence: 'it finishes what runs, and ends' })
      resolve()
    })
  })

/**
 * Logs errors that no code has caught. A bug ends the call that met it, not the others. Only its
 * place in the code is logged, never the data of the call.
 */
export function logBugs(log: Log): void {
  const logBug = (thrown: unknown) => {
    const { name, stack } = thrown instanceof Error ? thrown : new Error()
    log('error', 'bug', {
      error: name,
      at: stack
        ?.split('\n')
        .find(line => line.trimStart().startsWith('at '))
        ?.trim(),
    })
  }
  process.on('unhandledRejection', logBug)
  process.on('uncaughtException', logBug)
}

/** Tells where the server is. Stops listening and throws what prevents it. */
async function announce(serving: Serving, { url, stop }: Listeners): Promise<void> {
  try {
    await printStart(serving, url)
    // What runs from now on runs again: it is compiled as soon as anywhere. The build says otherwise.
    Bun.unsafe.setJITPolicy(1)
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
  const { createFirstKeys } = await import('../../resources/workspaces.ts')
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

/** Says which config file was read, which was passed over, and what of the environment was not. */
// It is known from nothing else: a wrong directory would be served with defaults.
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

/**
 * Has a hangup reload the config from here on. If the terminal was closed, it ends the server
 * instead.
 */
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
