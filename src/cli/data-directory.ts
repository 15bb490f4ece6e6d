import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** The data directory where neither the flag nor the environment names one. */
export const DEFAULT_DATA = './gateway-data'

/** Returns the data directory: the flag, else the environment, else the default. */
export const getDataDirectory = ({ data }: { data?: string }): string =>
  data ?? process.env.GATEWAY_DATA ?? DEFAULT_DATA

/** Whether a directory has the data of a gateway, or a backup that is being restored. */
export const hasData = (directory: string): boolean =>
  ['gateway.db', 'restore.part'].some(name => existsSync(join(directory, name)))
