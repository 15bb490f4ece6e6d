import { closeSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Command, Option } from 'commander'
import { GatewayError, invalid } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import { toUsd } from '../../core/kernel/money.ts'
import { toPrintableJson } from '../../core/kernel/printable.ts'
import { getCallStatus } from '../../core/telemetry/generations.ts'
import type { ConfigWatch } from '../config-file/watch.ts'
import type { ConfigFile } from '../config-file.ts'
import { getDataDirectory, hasData } from '../data-directory.ts'
import {
  createLog,
  LEVELS,
  type Level,
  LOG_FORMATS,
  type Log,
  type LogFormat,
  openLineWriter,
} from '../log.ts'
import {
  addCommonOptions,
  type CommonOptions,
  loadConfig,
  parseNumber,
  toGatewayParts,
} from '../options.ts'
import { print } from '../output.ts'
import { findLockHolder, renderHolder } from '../system-errors/holders.ts'
import { describeListenError } from '../system-errors.ts'

interface ServeOptions extends CommonOptions {
  host?: string
  port?: number
  drain: number
  log: LogFormat
  logLevel: Level
  accessLog: boolean
}

/** `gateway serve`: runs the server. Only this command knows the server. */
export const createServeCommand = () =>
  addCommonOptions(new Command('serve').description('serve the API'))
    .option('--host <address>', 'the address to listen on (GATEWAY_HOST; 127.0.0.1)')
    .option('--port <n>', 'the port; 0 picks a free one (GATEWAY_PORT; 8080)', parseNumber)
    .option(
      '--drain <seconds>',
      'how long running answers may continue after SIGTERM',
      parseNumber,
      30,
    )
    .addOption(new Option('--log <format>', 'how lines look').choices(LOG_FORMATS).default('text'))
    .addOption(
      new Option('--log-level <level>', 'the least that is logged').choices(LEVELS).default('info'),
    )
    .option('--no-access-log', 'no line for each call')
    .action(serve)

async function serve(options: ServeOptions): Promise<void> {
  const config = await loadConfig(options)
  const parts = toGatewayParts(options, config)
  const { lockData } = await import('../../core/store/lock.ts')
  const isNew = !hasData(parts.data)
  const unlock = explainLock(parts.data, () => lockData(parts.data))
  const { openGateway } = await import('../../core/gateway.ts')
  const gateway = await openGateway({ ...parts, busyTimeout: 0 })
  await runServer(gateway, options, config, isNew)
  await gateway.close()
  unlock()
  process.exit(0)
}

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

/** Serves from the first connection to the last answer. */
async function runServer(
  gateway: Gateway,
  options: ServeOptions,
  config: ConfigFile,
  isNew: boolean,
): Promise<void> {
  const { listen } = await import('../../server/listen.ts')
  const { listenForMetrics } = await import('../../server/listen/metrics.ts')
  const { writeCheckpoint, markEnds } = await import('../../core/inference/recover.ts')
  const log = createLogger(options, gateway)
  const { host, port } = readAddress(options, gateway)
  logBugs(log)
  await prepare(gateway, log)
  const stopped = waitForStop()
  const watch = await watchConfig(gateway, options, config)
  const metrics = explainListen(splitAddress(gateway), () => listenForMetrics(gateway))
  const server = explainListen({ host, port, flag: '--port, GATEWAY_PORT' }, () =>
    listen(gateway, host, port),
  )
  if (metrics) log('info', 'metrics.listening', { url: metrics.url })
  const silence = await tellStatus(log, gateway, {
    data: getDataDirectory(options),
    url: server.url,
    metrics_url: metrics?.url ?? null,
    file: config.file,
  })
  await logConfigFile(log, options, config)
  const stop = async (drain: number) => {
    await server.stop(drain)
    await metrics?.stop()
  }
  const start = { url: server.url, isNew, configFile: config }
  await announce(log, gateway, options, start).catch(async thrown => {
    await stop(0)
    throw thrown
  })
  const timers = [
    watchForChanges(gateway),
    scheduleWork(CHECKPOINT_INTERVAL, () => writeCheckpoint(gateway)),
    setInterval(() => void watch.look(), LOOK_INTERVAL),
  ]
  await stopped
  log('info', 'draining', { running: gateway.traffic.calls.size })
  await stop(options.drain * 1000)
  silence()
  for (const timer of timers) clearInterval(timer)
  await gateway.recorder.flush()
  await markEnds(gateway)
  log('info', 'stopped', {})
}

// Keys are made once nothing can fail any more, and only for a person: a log would keep them.
async function announce(
  log: Log,
  gateway: Gateway,
  options: ServeOptions,
  { url, isNew, configFile }: { url: string; isNew: boolean; configFile: ConfigFile },
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
  log: Log,
  gateway: Gateway,
  served: { data: string; url: string; metrics_url: string | null; file: string | null },
): Promise<() => void> {
  const core = await import('./serve/status.ts')
  try {
    return core.tellStatus(gateway, served)
  } catch (thrown) {
    const consequence = 'gateway status cannot ask this server'
    log('warn', 'status.unavailable', { cause: getCause(thrown), consequence })
    return () => undefined
  }
}

/** Runs the checks and the recovery that come before the first call. Throws where a check fails. */
async function prepare(gateway: Gateway, log: Log): Promise<void> {
  const { verifyLedgerEnd, recoverCalls } = await import('../../core/inference/recover.ts')
  const { listUnreadableByokKeys } = await import('../../core/catalog/byok.ts')
  const { isEmbedded } = await import('../../core/catalog/models/built-in.ts')
  for (const key of listUnreadableByokKeys(gateway)) gateway.events.publish('byok.unreadable', key)
  await verifyLedgerEnd(gateway)
  if (!isEmbedded()) gateway.catalog.getBuiltIn()
  const { sweepFiles } = await import('../../core/files.ts')
  const swept = await sweepFiles(gateway)
  if (swept > 0)
    log('warn', 'files.swept', {
      files: swept,
      consequence: 'uploads that a killed process left were deleted',
    })
  const recovered = await recoverCalls(gateway)
  if (recovered > 0)
    log('warn', 'calls.recovered', {
      calls: recovered,
      consequence: 'they are charged their last known cost',
    })
}

function readAddress(options: ServeOptions, { config }: Gateway): { host: string; port: number } {
  const host = options.host ?? process.env.GATEWAY_HOST ?? config.server.host
  const port =
    options.port ??
    (process.env.GATEWAY_PORT ? parseNumber(process.env.GATEWAY_PORT) : config.server.port)
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw invalid('port: expected an integer from 0 to 65535')
  return { host, port }
}

/** In milliseconds. A killed process may forget to charge this much of an answer. */
const CHECKPOINT_INTERVAL = 1_000

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
async function logConfigFile(
  log: Log,
  options: ServeOptions,
  { file, environment }: ConfigFile,
): Promise<void> {
  const { findSkippedConfig, listConfigPaths } = await import('../config-file.ts')
  const skipped = findSkippedConfig(listConfigPaths(options.config, getDataDirectory(options)))
  const read = { file: file === null ? 'none' : resolve(file) }
  log('info', 'config.read', skipped === undefined ? read : { ...read, skipped })
  for (const { slug, variable, reason } of environment.ignored)
    log('warn', 'environment.ignored', { variable, provider: slug, reason })
}

// From here on a hangup reloads the config. If the terminal was closed, it ends the server instead.
async function watchConfig(
  gateway: Gateway,
  options: ServeOptions,
  config: ConfigFile,
): Promise<ConfigWatch> {
  const { listConfigPaths } = await import('../config-file.ts')
  const { ConfigWatch } = await import('../config-file/watch.ts')
  const watch = new ConfigWatch(
    gateway,
    listConfigPaths(options.config, getDataDirectory(options)),
    config,
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

// A bug ends the call that met it, not the others. Only its place in the code is logged, never the
// data of the call.
function logBugs(log: Log): void {
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

/**
 * Creates a logger that writes one line per event to stderr. Third-party text is logged only as a
 * short cause, or as the cleaned reason of a provider.
 */
function createLogger({ log: format, logLevel, accessLog }: ServeOptions, gateway: Gateway): Log {
  const write = openLineWriter(Bun.stderr.writer(), lines => log('warn', 'log.dropped', { lines }))
  const log = createLog({ format, level: logLevel, now: () => gateway.clock.now(), write })
  if (accessLog) logEachCall(log, gateway)
  if (accessLog)
    gateway.events.on('call.refused', ({ id: request_id, key, path, model, ...refusal }) =>
      log('info', 'call.refused', {
        request_id,
        key: key ?? undefined,
        path,
        model: model ?? undefined,
        status: refusal.status,
        error: refusal.error_type,
        message: refusal.message,
      }),
    )
  gateway.events.on('refusals.skipped', ({ count }) => log('warn', 'refusals.skipped', { count }))
  logConfig(log, gateway)
  logCalls(log, gateway)
  gateway.events.on('byok.unreadable', ({ id, provider }) =>
    log('warn', 'byok.unreadable', {
      id,
      provider,
      consequence: 'sealed with another secret (GATEWAY_SECRET, secret.key), so it is not used',
    }),
  )
  gateway.events.on('descriptors.scarce', () =>
    log('warn', 'descriptors.scarce', {
      consequence: 'calls are refused until some are free (ulimit -n)',
    }),
  )
  gateway.events.on('descriptors.sufficient', () => log('info', 'descriptors.sufficient', {}))
  gateway.events.on('store.failing', ({ error }) =>
    log('error', 'store.failing', { cause: getCause(error) }),
  )
  return log
}

/** Logs one line for each finished call. */
function logEachCall(log: Log, { events, memory }: Gateway): void {
  events.on('generation.finished', call =>
    log('info', 'call', {
      request_id: call.request_id,
      generation: call.id,
      key: call.key_hash === null ? 'operator' : (memory.keys.get(call.key_hash)?.label ?? 'gone'),
      model: call.model,
      provider: call.provider_name ?? undefined,
      status: getCallStatus(call),
      error: call.error_type ?? undefined,
      input_tokens: call.native_tokens_prompt,
      output_tokens: call.native_tokens_completion,
      cost: toUsd(call.total_cost ?? 0n),
      ms: call.generation_time,
      first_ms: call.latency ?? undefined,
      attempts: call.provider_responses.length,
    }),
  )
}

function logCalls(log: Log, { events }: Gateway): void {
  events.on('attempt.failed', ({ id, endpoint, error, status, request_id }) =>
    log('warn', 'attempt.failed', {
      generation: id,
      provider: endpoint.provider.slug,
      model: endpoint.model,
      type: error.type,
      status: status ?? undefined,
      code: error.reason?.code ?? undefined,
      reason: error.reason?.message ?? undefined,
      provider_request_id: request_id ?? undefined,
      cause: getCause(error),
    }),
  )
  const unpriced = new Set<string>()
  events.on('price.missing', ({ endpoint: { model, provider } }) => {
    if (unpriced.has(`${provider.slug} ${model}`)) return
    unpriced.add(`${provider.slug} ${model}`)
    log('warn', 'price.missing', {
      provider: provider.slug,
      model,
      consequence: 'the cost of its calls is unknown and not charged',
    })
  })
  const implausible = new Set<string>()
  events.on('usage.implausible', ({ endpoint: { model, provider } }) => {
    if (implausible.has(`${provider.slug} ${model}`)) return
    implausible.add(`${provider.slug} ${model}`)
    log('warn', 'usage.implausible', {
      provider: provider.slug,
      model,
      consequence:
        'such calls are charged as estimated; gateway_implausible_usage_total counts them',
    })
  })
  events.on('filter.matched', finding => log('info', 'filter.matched', { ...finding }))
}

// Settings are logged by name, and errors in the words of `config check`. Values are never logged.
function logConfig(log: Log, { events }: Gateway): void {
  events.on('config.applied', ({ changed, needsRestart: settings }) => {
    log('info', 'config.applied', { changed })
    if (settings.length > 0)
      log('warn', 'config.needs_restart', {
        settings,
        consequence: 'they keep their values until a restart',
      })
  })
  events.on('config.rejected', ({ error: { message, metadata } }) =>
    log('error', 'config.rejected', {
      path: metadata.field,
      reason: message.replaceAll('\n', '; '),
      consequence: 'the previous config stays in effect',
    }),
  )
}

// The error of a connection has a code. Its text may contain an address with a credential.
function getCause(error: unknown): string | undefined {
  const cause = error instanceof GatewayError ? error.cause : error
  if (cause instanceof GatewayError) return getCause(cause)
  if (!(cause instanceof Error)) return undefined
  return 'code' in cause ? String(cause.code) : cause.name
}
