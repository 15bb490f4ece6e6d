import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config.ts'

/** The data directory where neither the flag nor the environment names one. */
export const DEFAULT_DATA = './gateway-data'

/** Returns the data directory: the flag, else the environment, else the default. */
export const getDataDirectory = ({ data }: { data?: string }): string =>
  data ?? process.env.GATEWAY_DATA ?? DEFAULT_DATA

/**
 * Whether a directory has the data of a gateway, or a backup that is being restored; with
 * `storage.postgres`, its data is there wherever the directory is. Throws what the system throws where
 * that cannot be known: a directory that is closed to this user is not empty.
 */
export const hasData = (directory: string, config?: Pick<Config, 'storage'>): boolean =>
  config?.storage.postgres !== undefined ||
  ['gateway.db', 'restore.part'].some(name => isThere(join(directory, name)))

function isThere(path: string): boolean {
  try {
    return statSync(path) !== undefined
  } catch (thrown) {
    if (isAbsence(thrown)) return false
    throw thrown
  }
}

const isAbsence = (thrown: unknown): boolean =>
  thrown instanceof Error &&
  'code' in thrown &&
  (thrown.code === 'ENOENT' || thrown.code === 'ENOTDIR')

const WORKERS = 'workers'

/** Says where one of several servers of a data directory keeps what is its own. */
export const locateWorker = (data: string, worker: number): string =>
  join(data, WORKERS, String(worker))

/** Lists the servers that a data directory has or had beneath it, in their order. */
export function listWorkers(data: string): number[] {
  const directory = join(data, WORKERS)
  if (!existsSync(directory)) return []
  const numbers = readdirSync(directory).filter(name => /^[1-9]\d{0,3}$/.test(name))
  return numbers.map(Number).sort((a, b) => a - b)
}
