import { parseExact } from '../../../base/json.ts'
import type { EngineConfig } from '../../../config/tools.ts'
import type { IncomingResponse } from '../../../network/egress.ts'
import type { UpstreamWorld } from '../../../network/world.ts'
import type { UseLimit } from '../use-limit.ts'
import type { EngineRequest, SearchEngine } from './engine.ts'

/** The largest answer of an engine. One of 25 results with 100,000 characters each fits. */
const LARGEST_ANSWER = 16 * 1024 * 1024

/** Sends a request to an engine at its configured address. */
export function sendToEngine(
  world: UpstreamWorld,
  { baseUrl }: Pick<SearchEngine, 'baseUrl'>,
  { base_url }: Pick<EngineConfig, 'base_url'>,
  { path, headers, body }: EngineRequest,
  cancellation: ReturnType<UseLimit['open']>,
): Promise<IncomingResponse> {
  const address = (base_url ?? baseUrl ?? '').replace(/\/+$/, '')
  return world.egress.send(
    {
      url: address + path,
      headers: { accept: 'application/json', ...(body ? JSON_BODY : {}), ...headers },
      ...(body ? { body: JSON.stringify(body) } : { method: 'GET' as const, body: '' }),
    },
    cancellation,
  )
}

const JSON_BODY = { 'content-type': 'application/json' }

/** Reads the JSON of an answer; undefined for what is none, or is too large. */
export async function readJson(incoming: IncomingResponse): Promise<unknown> {
  const text = await incoming.text(LARGEST_ANSWER, () => undefined)
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}

/** Tells why an engine has not done its work, in our own words. */
export function describeStatus(engine: string, unit: string, status: number): string {
  if (status === 401 || status === 403) return `${engine} refuses its credential`
  if (status === 402 || status === 432 || status === 433)
    return `${engine.replace('The', 'The account at the')} has no ${unit} left`
  if (status === 429) return `${engine} is busy: try again later`
  if (status >= 500) return `${engine} is not available`
  return `${engine} does not accept the request (${status})`
}
