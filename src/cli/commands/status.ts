import { Command } from 'commander'
import { parseObject } from '../../base/json.ts'
import { getDataDirectory } from '../data-directory.ts'
import { describeSilence } from '../feed.ts'
import { addPlaceOptions, addShapeOptions, type CommonOptions } from '../options.ts'
import { print, printFields, printResult, printTable } from '../output.ts'
import { readStatus } from '../status-socket.ts'
import type { ServerStatus } from './serve/status.ts'

/**
 * `gateway status`: the server that runs on this data directory. Exits with 3 where none runs, and
 * with 1 where something about it needs a look.
 */
export const createStatusCommand = () =>
  addPlaceOptions(
    addShapeOptions(
      new Command('status').description(
        'show the server that runs on this data directory; exits with 3 if there is none',
      ),
      'print it as JSON',
    ),
  ).action(showStatus)

async function showStatus(options: CommonOptions): Promise<void> {
  const data = getDataDirectory(options)
  const text = await readStatus(data)
  const status = text === undefined ? undefined : (parseObject(text) as ServerStatus | undefined)
  if (!status) throw await describeSilence(data)
  const { config, catalog, draining, write_log } = status
  if (config.rejected || catalog?.problem || draining || write_log.held) process.exitCode = 1
  await printResult(options, { data: status }, ({ data }) => printStatus(data))
}

function printStatus({ config, cooldown_count, workers = [], ...status }: ServerStatus): void {
  printFields({
    state: status.draining ? 'draining: running answers finish' : 'serving',
    address: status.url,
    ...(status.metrics_url === null ? {} : { metrics: status.metrics_url }),
    version: status.version,
    ...(workers.length === 0 ? { process: status.pid } : {}),
    uptime: `${formatLength(status.uptime_seconds)}, since ${status.started_at}`,
    'running calls': status.running_calls,
    cooldowns: cooldown_count,
    config: `${config.file ?? 'none: the defaults'}, applied ${config.applied_at}`,
    ...(status.catalog ? { catalogue: renderCatalog(status.catalog) } : {}),
    ...(status.write_log.held ? { storage: describeHeldLog(status.write_log.bytes) } : {}),
    ...(config.rejected ? { rejected: config.reason ?? 'a newer config' } : {}),
  })
  printRests(
    ['WORKER', 'PROCESS', 'RUNNING CALLS'],
    workers.map(({ worker, pid, running_calls }) => [worker, pid, running_calls]),
  )
  printRests(
    ['COOLING DOWN', 'REASON', 'SECONDS LEFT'],
    status.cooldowns.map(({ endpoint, reason, seconds_left }) => [endpoint, reason, seconds_left]),
  )
  printRests(
    ['RESTING CREDENTIAL', 'MODEL', 'REASON', 'SECONDS LEFT'],
    status.resting_credentials.map(({ provider, credential, model, reason, seconds_left }) => [
      ...[`${provider} ${credential}`, model ?? 'all', reason, seconds_left],
    ]),
  )
}

function printRests(header: string[], rows: Parameters<typeof printTable>[1]): void {
  if (rows.length === 0) return
  print('')
  printTable(header, rows)
}

const renderCatalog = ({ generated, is_installed, problem }: ServerStatus['catalog']): string =>
  `of ${generated}, ${is_installed ? 'installed' : 'built in'}${problem ? ` (${problem})` : ''}`

const MIB = 1024 * 1024

const describeHeldLog = (bytes: number): string =>
  `a process that reads the database keeps its log from being shortened: ${Math.ceil(bytes / MIB)} MiB`

/** Formats a length of time by its two largest units: `3 h 20 min`. */
function formatLength(seconds: number): string {
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const
  const first = parts.findIndex(([count]) => count > 0)
  const shown = first === -1 ? parts.slice(3) : parts.slice(first, first + 2)
  return shown.map(([count, unit]) => `${count} ${unit}`).join(' ')
}
