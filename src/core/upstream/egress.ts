import { lookup } from 'node:dns/promises'
import type { Config } from '../config.ts'
import type { Cancellation } from '../kernel/cancellation.ts'
import { parseObject } from '../kernel/json.ts'
import { openHttp } from './http/client.ts'
import { type Incoming, textOf } from './http/exchange.ts'
import { sandbox } from './sandbox.ts'

export type { Incoming }

/** One request to a provider or another host. */
export interface Outgoing {
  /** POST by default. */
  method?: 'GET'
  url: string
  /** Keyed by lower-case name. */
  headers: Record<string, string>
  /** Exactly as it goes on the wire, because signatures cover it. */
  body: string
  /** The address to connect to, instead of resolving the URL's host. */
  address?: string
}

/** Sends a request. Cancelling closes the connection at once. */
export type Send = (outgoing: Outgoing, cancellation: Cancellation) => Promise<Incoming>

/**
 * Opens the only way out of the process. It sends requests to providers and answers for the
 * sandbox itself. `getConfig` is called whenever a connection is opened.
 */
export function openEgress(configOf: () => Config): Send {
  const http = openHttp({
    get connectMilliseconds() {
      return configOf().timeouts.connect_seconds * 1000
    },
  })
  return ({ method = 'POST', url, headers, body, address }, cancellation) => {
    if (url.startsWith('sandbox:'))
      return sandbox(url.slice('sandbox:'.length), parseObject(body) ?? {}, cancellation).then(
        incomingOf,
      )
    return http.send({ method, url, headers, body, address }, cancellation)
  }
}

/** Returns the addresses of a host. Throws when it has none. */
export type Resolve = (host: string) => Promise<string[]>

/** Resolves a host with the system's resolver. */
export const resolveHost: Resolve = async host =>
  (await lookup(host, { all: true })).map(({ address }) => address)

/** Converts a platform `Response` to an `IncomingResponse`. */
export function incomingOf(response: Response): Incoming {
  const reader = response.body?.getReader()
  const read = async () => (await reader?.read())?.value ?? null
  return {
    status: response.status,
    header: name => response.headers.get(name),
    read,
    text: (largest, touched) => textOf({ read }, largest, touched),
  }
}
