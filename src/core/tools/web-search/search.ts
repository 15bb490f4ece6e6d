import type { EngineConfig } from '../../config/tools.ts'
import { parseExact } from '../../kernel/json.ts'
import type { IncomingResponse } from '../../upstream/egress.ts'
import type { UpstreamWorld } from '../../upstream/world.ts'
import { ToolFailure, type UseLimit } from '../use-limit.ts'
import type { EngineRequest, FoundPage, Search, SearchEngine } from './engine.ts'

/** The largest answer of an engine. One of 25 results with 100,000 characters each fits. */
const LARGEST_ANSWER = 16 * 1024 * 1024

/**
 * Asks an engine. Returns the pages as it names them, unchecked. Throws `ToolFailure` with a
 * sentence that has nothing of the engine's own words, which might repeat the key.
 */
export async function askEngine(
  world: UpstreamWorld,
  engine: SearchEngine,
  settings: EngineConfig,
  search: Search,
  limit: UseLimit,
): Promise<FoundPage[]> {
  const branch = limit.open()
  try {
    const incoming = await sendToEngine(
      world,
      engine,
      settings,
      engine.buildRequest(search, settings),
      branch,
    )
    if (incoming.status !== 200) throw new ToolFailure(describeStatus(engine, incoming.status))
    const pages = engine.readPages(await readJson(incoming))
    if (!pages) throw new ToolFailure(`The search engine ${engine.name} sent no results`)
    return pages
  } finally {
    limit.release(branch)
  }
}

/** Sends a request to an engine at its configured address. */
export function sendToEngine(
  world: UpstreamWorld,
  { baseUrl }: SearchEngine,
  { base_url }: EngineConfig,
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

async function readJson(incoming: IncomingResponse): Promise<unknown> {
  const text = await incoming.text(LARGEST_ANSWER, () => undefined)
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}

function describeStatus({ name }: SearchEngine, status: number): string {
  if (status === 401 || status === 403) return `The search engine ${name} refuses its credential`
  if (status === 402 || status === 432 || status === 433)
    return `The account at the search engine ${name} has no searches left`
  if (status === 429) return `The search engine ${name} is busy: try again later`
  if (status >= 500) return `The search engine ${name} is not available`
  return `The search engine ${name} does not accept the search (${status})`
}
