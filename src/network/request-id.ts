import type { IncomingResponse } from './egress.ts'

/** The names of the header with a provider's own id of a request; the first that is there counts. */
const NAMES = [
  'x-request-id',
  'request-id',
  'x-amzn-requestid',
  'apim-request-id',
  'x-goog-request-id',
  'x-cloud-trace-context',
  'cf-ray',
]

const ID = /^[\w.:;=/+-]{1,200}$/

/** Reads the provider's own id of a request, which its support asks for. Null if there is none. */
export function readUpstreamRequestId(incoming: IncomingResponse): string | null {
  for (const name of NAMES) {
    const id = incoming.header(name)
    if (id !== null && ID.test(id)) return id
  }
  return null
}
