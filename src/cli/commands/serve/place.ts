import { InvalidArgumentError } from 'commander'
import type { Gateway } from '../../../app/gateway.ts'
import { invalid } from '../../../base/errors.ts'
import type { GivenSocket } from '../../../server/listen/given-socket.ts'
import type { ConfigFile } from '../../config-file.ts'
import type { CommonOptions } from '../../options.ts'
import { describeListenError } from '../../system-errors.ts'
import type { LogOptions } from './log.ts'

/** Where a server listens, and what changes the port. */
export interface ListenPlace {
  host: string
  port: number
  flag: string
}

const PORT = 'expected an integer from 0 to 65535'

/** Parses a port on the command line. */
export function parsePort(text: string): number {
  const port = readPort(text)
  if (port === undefined) throw new InvalidArgumentError(PORT)
  return port
}

const readPort = (text: string): number | undefined =>
  /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : undefined

/** Returns where the operator wants the server to listen. Throws 400 for a port that is none. */
export function readPlace(options: ServeOptions, { config }: ConfigFile): ListenPlace {
  const { GATEWAY_HOST, GATEWAY_PORT } = process.env
  const host = options.host ?? GATEWAY_HOST ?? config.server.host
  const port = options.port ?? (GATEWAY_PORT ? readPort(GATEWAY_PORT) : config.server.port)
  if (port === undefined) throw invalid(`GATEWAY_PORT: ${PORT}`)
  return { host, port, flag: '--port, GATEWAY_PORT' }
}

/** Finds what names an address on the command line or in the environment. */
export const findAddressFlag = ({ host, port }: ServeOptions): string | undefined =>
  [
    ['--host', host],
    ['--port', port],
    ['GATEWAY_HOST', process.env.GATEWAY_HOST],
    ['GATEWAY_PORT', process.env.GATEWAY_PORT],
  ].find(([, value]) => value)?.[0] as string | undefined

/** Returns where a server listens: where the socket is that it was given, if it was. */
export const takePlace = (place: ListenPlace, given: GivenSocket | null): ListenPlace =>
  given ? { ...place, host: given.socket.host, port: given.socket.port } : place

/** Returns where the metrics are wanted. */
export function readMetricsPlace({ config }: Gateway): ListenPlace {
  const address = config.server.metrics_address ?? ''
  const colon = address.lastIndexOf(':')
  const [host, port] = [address.slice(0, colon), Number(address.slice(colon + 1))]
  return { host, port, flag: 'server.metrics_address' }
}

/** Opens a socket. Says in the operator’s words why it cannot. */
export function explainListen<T>(place: ListenPlace, listen: () => T): T {
  try {
    return listen()
  } catch (thrown) {
    const message = describeListenError(thrown, place)
    throw message === undefined ? thrown : new Error(message, { cause: thrown })
  }
}

/** How a server is to run, as the command line has it. */
export interface ServeOptions extends CommonOptions, LogOptions {
  host?: string
  port?: number
  drain: number
  notice: number
  takeover?: boolean
  workers?: number | 'auto'
  /** Which of several servers this process is. No user says it: `--worker` is a slip for `--workers`. */
  workerNumber?: number
  /** In seconds: what is silent for longer is killed. Tests say it. */
  workerSilence?: number
}
