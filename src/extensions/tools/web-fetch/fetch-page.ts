import { VERSION } from '../../../base/version.ts'
import type { IncomingResponse } from '../../../network/egress.ts'
import { type CheckedUrl, checkUntrustedUrl } from '../../../network/untrusted-url.ts'
import type { UpstreamWorld } from '../../../network/world.ts'
import { ToolFailure, type UseLimit } from '../use-limit.ts'

/** What to fetch, and how much of it. */
interface PageRequest {
  url: string
  /** The most bytes, decompressed. What follows is not read. */
  maxBytes: number
  /** Called with every URL before it is asked for, redirects included. Throws to refuse it. */
  checkPage: (url: string) => Promise<void> | void
}

/** What a URL led to. */
export interface FetchedPage {
  /** The URL after redirects. */
  url: string
  status: number
  /** The type that the server states, in lower case: `text/html`; empty if it states none. */
  type: string
  /** The charset that the server states; null if it states none. */
  charset: string | null
  bytes: Buffer
  /** Whether there was more than `maxBytes`. */
  isCut: boolean
}

const MAX_REDIRECTS = 5
const REDIRECTS = [301, 302, 303, 307, 308]

/**
 * Fetches a page that a model named. Only public hosts are called, each at the address that was
 * checked, redirects included (`upstream/untrusted-url.ts`). Throws `ToolFailure`, or
 * `invalid_request` for a URL that may not be called.
 */
export async function fetchPage(
  world: UpstreamWorld,
  request: PageRequest,
  limit: UseLimit,
): Promise<FetchedPage> {
  let checked = await limit.race(checkUntrustedUrl(world, request.url))
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    await request.checkPage(checked.url)
    const result = await requestPage(world, checked, request.maxBytes, limit)
    if (typeof result !== 'string') return result
    checked = await limit.race(checkUntrustedUrl(world, result, undefined, checked.url))
  }
  throw new ToolFailure(`The page redirects more than ${MAX_REDIRECTS} times`)
}

/** How the gateway names itself to sites, and what `robots.txt` calls it. */
export const ROBOT = 'gateway-fetch'

const HEADERS = {
  accept: 'text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.9,*/*;q=0.5',
  'accept-encoding': 'identity',
  'accept-language': 'en,*;q=0.5',
  'user-agent': `Mozilla/5.0 (compatible; ${ROBOT}/${VERSION})`,
  connection: 'close',
}

/** Requests a URL. Returns the page, or the target of a redirect. Always closes the connection. */
async function requestPage(
  world: UpstreamWorld,
  checked: CheckedUrl,
  maxBytes: number,
  limit: UseLimit,
): Promise<FetchedPage | string> {
  const branch = limit.open()
  try {
    const incoming = await world.egress.send(
      { method: 'GET', ...checked, headers: HEADERS, body: '' },
      branch,
    )
    const target = REDIRECTS.includes(incoming.status) ? incoming.header('location') : null
    return target ?? (await readPage(checked.url, incoming, maxBytes))
  } finally {
    limit.release(branch)
  }
}

async function readPage(
  url: string,
  incoming: IncomingResponse,
  maxBytes: number,
): Promise<FetchedPage> {
  const [type = '', ...parameters] = (incoming.header('content-type') ?? '').split(';')
  const charset = parameters.map(one => /^\s*charset\s*=\s*"?([\w.:-]{1,40})/i.exec(one)?.[1])
  const { status } = incoming
  return {
    ...{ url, status, type: type.trim().toLowerCase() },
    charset: charset.find(one => one !== undefined) ?? null,
    ...(await gatherBytes(incoming, maxBytes)),
  }
}

const FIRST_ROOM = 64 * 1024

// One buffer that doubles: a list of chunks would be many times larger if they came byte by byte.
async function gatherBytes(
  incoming: IncomingResponse,
  maxBytes: number,
): Promise<{ bytes: Buffer; isCut: boolean }> {
  let buffer: Buffer = Buffer.allocUnsafe(Math.min(FIRST_ROOM, maxBytes))
  let size = 0
  for (let bytes = await incoming.read(); bytes; bytes = await incoming.read()) {
    const kept = bytes.subarray(0, maxBytes - size)
    if (size + kept.length > buffer.length) buffer = enlarge(buffer, size + kept.length, maxBytes)
    buffer.set(kept, size)
    size += kept.length
    if (kept.length < bytes.length) return { bytes: buffer.subarray(0, size), isCut: true }
  }
  return { bytes: buffer.subarray(0, size), isCut: false }
}

function enlarge(buffer: Buffer, minimum: number, maxBytes: number): Buffer {
  const larger = Buffer.allocUnsafe(Math.max(Math.min(buffer.length * 2, maxBytes), minimum))
  larger.set(buffer)
  return larger
}
