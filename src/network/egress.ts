import { lookup } from 'node:dns/promises'
import type { ByteSource } from '../base/byte-source.ts'
import type { Cancellation } from '../base/cancellation.ts'
import { isObject, parseObject } from '../base/json.ts'
import type { Config } from '../config.ts'
import { openHttpClient } from './http/client.ts'
import { type IncomingResponse, readBodyText } from './http/exchange.ts'
import { askSandbox } from './sandbox.ts'

export type { IncomingResponse }

/** A piece of a body: bytes, which are emptied once they are sent, or what is read meanwhile. */
export type BodyPiece = Uint8Array | ByteSource

/** One request to a provider or another host. */
export interface OutgoingRequest {
  /** POST by default. */
  method?: 'GET' | 'PUT' | 'DELETE' | 'PATCH' | 'POST'
  url: string
  /** Keyed by lower-case name. */
  headers: Record<string, string>
  /**
   * Exactly as it goes on the wire, because signatures cover it. A large one is in pieces, each of
   * which gives its memory back once it is sent.
   */
  body: string | BodyPiece[]
  /** A large body as it was before it was written: the sandbox need not read it again. */
  value?: unknown
  /** The file that goes with the value. */
  attached?: ByteSource
  /** The address to connect to, instead of resolving the URL's host. */
  address?: string
  /** Whether the next request to the same host at the same address may use its connection. */
  isRepeated?: boolean
  /** Called when a connection takes the request: from here on the provider may have read it. */
  onSent?: () => void
}

/** Sends a request. Cancelling closes the connection at once. */
export type Send = (
  outgoing: OutgoingRequest,
  cancellation: Cancellation,
) => Promise<IncomingResponse>

/**
 * Opens the only way out of the process. It sends requests to providers and answers for the
 * sandbox itself. `getConfig` is called whenever a connection is opened.
 */
export function openEgress(getConfig: () => Config): Send {
  const http = openHttpClient({
    get connectMilliseconds() {
      return getConfig().timeouts.connect_seconds * 1000
    },
  })
  return (
    { method = 'POST', url, headers, body, value, attached, address, isRepeated, onSent },
    cancellation,
  ) => {
    if (url.startsWith('sandbox:')) {
      onSent?.()
      const asked = value ?? (typeof body === 'string' ? parseObject(body) : undefined)
      return askSandbox(
        url.slice('sandbox:'.length),
        isObject(asked) ? asked : {},
        cancellation,
        attached,
      ).then(toIncomingResponse)
    }
    return http.send({ method, url, headers, body, address, isRepeated, onSent }, cancellation)
  }
}

/** Returns the addresses of a host. Throws when it has none. */
export type Resolve = (host: string) => Promise<string[]>

/** Resolves a host with the system's resolver. */
export const resolveHost: Resolve = async host =>
  (await lookup(host, { all: true })).map(({ address }) => address)

/** Converts a platform `Response` to an `IncomingResponse`. */
export function toIncomingResponse(response: Response): IncomingResponse {
  const reader = response.body?.getReader()
  const read = async () => (await reader?.read())?.value ?? null
  return {
    status: response.status,
    header: name => response.headers.get(name),
    read,
    text: (maxBytes, onBytes) => readBodyText({ read }, maxBytes, onBytes),
  }
}
