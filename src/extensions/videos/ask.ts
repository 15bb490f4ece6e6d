import { Cancellation } from '../../base/cancellation.ts'
import { Timeout } from '../../base/clock.ts'
import { GatewayError, unavailable } from '../../base/errors.ts'
import { parseExact } from '../../base/json.ts'
import { authorize } from '../../network/authorize.ts'
import type { IncomingResponse } from '../../network/egress.ts'
import type { Provider } from '../../resources/providers/provider.ts'
import type { VideoJob } from '../../resources/videos.ts'
import type { JobProtocol, UpstreamRequest } from '../../translation/protocols/protocol.ts'
import { protocols } from '../../translation/protocols/registry.ts'
import type { ExtensionWorld } from '../world.ts'

/** The answer of a provider to a question about a job. */
export interface JobAnswer {
  status: number
  /** Undefined if it is no JSON. */
  body: unknown
  retryAfter: string | null
}

/** Returns how the jobs of this protocol are asked about. */
export function getJobProtocol({ protocol }: Pick<VideoJob, 'protocol'>): JobProtocol {
  const found = protocols.video[protocol]?.job
  if (!found) throw unavailable(`This version does not speak ${protocol}`)
  return found
}

/**
 * Returns the provider that has the job, with the credential that began it. Throws 503 if one of
 * them is no longer configured, or if the caller's key is gone.
 */
export function getJobProvider({ catalog, memory }: ExtensionWorld, job: VideoJob): Provider {
  const { provider: slug, byok_id, is_byok, credential } = job
  const found = is_byok
    ? memory.byok.get(byok_id ?? '')?.providers.get(slug)
    : catalog.providers.get(slug)
  if (!found?.configured) throw unavailable(`The provider ${slug} is not configured`)
  if (credential === null) return found
  const own = found.pool?.credentials.find(({ name }) => name === credential)
  if (!own) throw unavailable(`The provider ${slug} has no credential ${credential} any more`)
  return own.provider
}

/** The longest time for one question, in milliseconds, and the most bytes of its answer. */
const TIMEOUT = 30_000
const MEBIBYTE = 1024 * 1024

/**
 * Asks the provider of a job something. Throws `provider_unavailable` if it cannot be reached, and
 * the reason of the cancellation, of which this is the only listener.
 */
export async function askJobProvider(
  world: ExtensionWorld,
  job: VideoJob,
  request: UpstreamRequest,
  cancellation: Cancellation,
): Promise<JobAnswer> {
  const limit = new Cancellation()
  const timeout = new Timeout(TIMEOUT, () => limit.cancel(failed()))
  cancellation.listen(reason => limit.cancel(reason))
  try {
    const incoming = await sendToJobProvider(world, job, request, limit)
    const text = await incoming.text(world.config.limits.answer_mib * MEBIBYTE, () => undefined)
    return {
      status: incoming.status,
      body: parse(text),
      retryAfter: incoming.header('retry-after'),
    }
  } catch (thrown) {
    throw limit.reason ?? (thrown instanceof GatewayError ? thrown : failed(thrown))
  } finally {
    timeout.stop()
    cancellation.listen(null)
    limit.cancel(OVER)
  }
}

/** Sends a request to the provider of a job, with the credential that began it. */
export async function sendToJobProvider(
  world: ExtensionWorld,
  job: VideoJob,
  request: UpstreamRequest,
  cancellation: Cancellation,
): Promise<IncomingResponse> {
  const provider = getJobProvider(world, job)
  const outgoing = await authorize(world, provider, request, cancellation)
  return world.egress.send(outgoing, cancellation)
}

const failed = (cause?: unknown) =>
  new GatewayError('provider_unavailable', 'Provider returned error', { cause })

const OVER = new GatewayError('unmapped', 'The request is over')

function parse(text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}
