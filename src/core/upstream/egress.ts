import type { UpstreamRequest } from '../protocols/protocol.ts'
import { sandbox } from './sandbox.ts'

/** One request to the world. */
export interface Outgoing {
  url: string
  headers: Record<string, string>
  body: UpstreamRequest['body']
}

/** Asks the world. The only way out of the process. */
export type Egress = (outgoing: Outgoing, signal: AbortSignal) => Promise<Response>

/**
 * Sends the request. Redirects are not followed: they would carry the credential elsewhere. Bun's own limit of 360 silent
 * seconds is off: the attempt has limits of its own. The sandbox is answered in this process.
 */
export const egress: Egress = (outgoing, signal) =>
  outgoing.url.startsWith('sandbox:') ? sandbox(outgoing.body, signal) : fetch(outgoing.url, requestInit(outgoing, signal))

const requestInit = ({ headers, body }: Outgoing, signal: AbortSignal): BunFetchRequestInit => ({
  method: 'POST',
  headers,
  body: JSON.stringify(body),
  redirect: 'manual',
  signal,
  // The types know only `true`.
  ...({ timeout: false } as object),
})
