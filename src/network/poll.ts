import type { Cancellation } from '../base/cancellation.ts'
import { GatewayError } from '../base/errors.ts'
import type { Provider } from '../resources/providers/provider.ts'
import type { FollowUp } from '../translation/protocols/protocol.ts'
import { authorizeUrl } from './authorize.ts'
import type { OutgoingRequest } from './egress.ts'
import { checkUntrustedUrl } from './untrusted-url.ts'
import type { UpstreamWorld } from './world.ts'

/** Work that a provider does in its own time, and how its answers are asked for. */
export interface PendingWork {
  provider: Provider
  /** What to ask first. */
  next: FollowUp
  /** Returns what to ask after this answer; null once it is whole. */
  readNext(answer: unknown, asked: FollowUp): FollowUp | null
  /** Sends a request and returns its answer. Throws what the provider refuses. */
  ask(outgoing: OutgoingRequest): Promise<unknown>
  /** Ends the wait. It is its only listener between two requests. */
  cancellation: Cancellation
}

/** The pauses before a provider is asked, in milliseconds: each is longer, up to the longest. */
const FIRST_PAUSE = 100
const LONGEST_PAUSE = 2_000
const GROWTH = 1.5

/**
 * Asks a provider until its work is done, and returns the answer that says so. The time limits of
 * the attempt end the wait, by its cancellation.
 */
export async function pollResult(world: UpstreamWorld, work: PendingWork): Promise<unknown> {
  let { next } = work
  for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * GROWTH, LONGEST_PAUSE)) {
    await pauseUnlessCancelled(pause, work.cancellation)
    const answer = await work.ask(await buildFollowUp(world, work, next))
    const following = work.readNext(answer, next)
    if (!following) return answer
    next = following
  }
}

async function pauseUnlessCancelled(
  milliseconds: number,
  cancellation: Cancellation,
): Promise<void> {
  const over = Promise.withResolvers<void>()
  const timer = setTimeout(over.resolve, milliseconds)
  try {
    await cancellation.awaitUnlessCancelled(over.promise)
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Builds the request for a result. The address that the provider names is used where it is the
 * provider's own: the credential goes nowhere else. Otherwise the result is asked for where the
 * work was.
 */
async function buildFollowUp(
  world: UpstreamWorld,
  { provider, cancellation }: PendingWork,
  { url, path, body }: FollowUp,
): Promise<OutgoingRequest> {
  const named = url === undefined ? null : URL.parse(url)
  const base = new URL(provider.base_url)
  if (!named || !isOwnHost(named, base)) {
    if (path === undefined) throw noResult()
    return authorizeUrl(world, provider, { url: provider.base_url + path, body }, cancellation)
  }
  const own = named.origin === base.origin
  const checked = own
    ? { url: named.href }
    : await cancellation.awaitUnlessCancelled(checkUntrustedUrl(world, named.href))
  return authorizeUrl(world, provider, { ...checked, body }, cancellation)
}

const noResult = () =>
  new GatewayError('provider_unavailable', 'Provider returned error', {
    reason: { code: null, message: 'The provider names no address of its own for the result' },
  })

/** Tells whether an address is of the same origin, or of another host of the same domain. */
function isOwnHost(named: URL, base: URL): boolean {
  if (named.username !== '' || named.password !== '') return false
  if (named.origin === base.origin) return true
  const domain = base.hostname.split('.').slice(-2).join('.')
  const isName = /[a-z]$/i.test(base.hostname) && domain.includes('.')
  return isName && named.protocol === 'https:' && named.hostname.endsWith(`.${domain}`)
}
