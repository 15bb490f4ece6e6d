import { lookup } from 'node:dns/promises'
import type { Config } from '../config.ts'
import type { Cancellation } from '../kernel/cancellation.ts'
import { parseObject } from '../kernel/json.ts'
import { openHttp } from './http/client.ts'
import { type Incoming, textOf } from './http/exchange.ts'
import { sandbox } from './sandbox.ts'

export type { Incoming }

/** One request to the world. */
export interface Outgoing {
  /** POST unless told. */
  method?: 'GET'
  url: string
  /** By lower-case name. */
  headers: Record<string, string>
  /** As it goes on the wire: what is signed is what is sent. */
  body: string
  /** Where to connect, instead of asking what the URL's host is. */
  address?: string
}

/** Asks the world. Cancelling closes the connection at once. */
export type Send = (outgoing: Outgoing, cancellation: Cancellation) => Promise<Incoming>

/** The only way out of the process: sends to providers, and answers for the sandbox. `configOf` is asked where a connection is opened. */
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

/** The addresses of a host. Throws where it has none. */
export type Resolve = (host: string) => Promise<string[]>

/** Asks the system. */
export const resolveHost: Resolve = async host =>
  (await lookup(host, { all: true })).map(({ address }) => address)

/** A platform `Response` in this form. */
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
