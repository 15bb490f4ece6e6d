import type { IncomingResponse } from '../../upstream/egress.ts'
import { checkUntrustedUrl } from '../../upstream/untrusted-url.ts'
import type { UpstreamWorld } from '../../upstream/world.ts'
import { ToolFailure, type UseLimit } from '../use-limit.ts'
import type { McpServer } from './server.ts'

/** A `fetch` for the client library. */
export type TransportFetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/**
 * Creates the `fetch` of one use of a server, over the gateway's own way out: within its time, and
 * within its bytes, of all answers together. Each request to a caller's server is checked anew, so
 * that no redirect and no name leads into the private network. The stream that a server may open
 * for messages of its own (GET) is refused, as nothing here would read it.
 */
export function createTransportFetch(
  world: UpstreamWorld,
  server: McpServer,
  limit: UseLimit,
): TransportFetch {
  const budget = { bytes: world.config.mcp.max_answer_mib * 1024 * 1024 }
  return async (address, init = {}) => {
    const url = String(address)
    const { method = 'GET' } = init
    if (method === 'GET') return new Response(null, { status: 405 })
    const checked = await checkServerUrl(world, server, url, limit)
    const branch = limit.open()
    init.signal?.addEventListener('abort', () => limit.release(branch), { once: true })
    const incoming = await world.egress.send(
      {
        ...(method === 'DELETE' ? { method } : {}),
        ...checked,
        headers: { ...HEADERS, ...Object.fromEntries(new Headers(init.headers)) },
        body: typeof init.body === 'string' ? init.body : '',
      },
      branch,
    )
    return toResponse(incoming, budget, () => limit.release(branch))
  }
}

const HEADERS = { 'accept-encoding': 'identity', 'user-agent': 'gateway' }

async function checkServerUrl(
  world: UpstreamWorld,
  server: McpServer,
  url: string,
  limit: UseLimit,
): Promise<{ url: string; address?: string }> {
  if (!server.isConfigured) return limit.race(checkUntrustedUrl(world, url))
  // The operator's credentials go to the operator's server.
  if (new URL(url).origin !== new URL(server.url).origin)
    throw new ToolFailure(`The MCP server ${server.label} redirects to another server`)
  return { url }
}

const NO_BODY = new Set([204, 205, 304])

function toResponse(
  incoming: IncomingResponse,
  budget: { bytes: number },
  release: () => void,
): Response {
  const { status } = incoming
  if (status < 200 || status > 599) throw new ToolFailure('The MCP server sent a wrong status')
  const headers = new Headers()
  for (const name of ['content-type', 'mcp-session-id', 'location']) {
    const value = incoming.header(name)
    if (value !== null) headers.set(name, value)
  }
  if (NO_BODY.has(status)) {
    release()
    return new Response(null, { status, headers })
  }
  const body = openBody(createLineReader(incoming), budget, release)
  return new Response(body, { status, headers })
}

const openBody = (
  read: () => Promise<Uint8Array | null>,
  budget: { bytes: number },
  release: () => void,
) =>
  new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const bytes = await read()
      if (!bytes) {
        release()
        controller.close()
        return
      }
      budget.bytes -= bytes.length
      if (budget.bytes < 0) {
        release()
        throw new ToolFailure('The MCP server sent too much')
      }
      controller.enqueue(new Uint8Array(bytes))
    },
    cancel: release,
  })

const LINE_END = 0x0a
/** The most bytes that wait for the end of their line. */
const LONGEST_WAIT = 64 * 1024

/**
 * Returns a reader of whole lines, or of long pieces of one: the library's parser searches what it
 * has of a line again with each piece, so a line that comes byte by byte would take it quadratic
 * time. A piece doubles in length, which makes that linear.
 */
function createLineReader(incoming: IncomingResponse): () => Promise<Uint8Array | null> {
  let wanted = LONGEST_WAIT
  return async () => {
    const pieces: Uint8Array[] = []
    for (let size = 0; ; ) {
      const bytes = await incoming.read()
      if (!bytes) return pieces.length > 0 ? Buffer.concat(pieces) : null
      pieces.push(bytes)
      size += bytes.length
      if (bytes.includes(LINE_END)) {
        wanted = LONGEST_WAIT
        return Buffer.concat(pieces)
      }
      if (size < wanted) continue
      wanted *= 2
      return Buffer.concat(pieces)
    }
  }
}
