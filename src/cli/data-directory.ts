import { statSync } from 'node:fs'
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
