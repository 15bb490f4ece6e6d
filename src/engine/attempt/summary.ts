import { GatewayError } from '../../base/errors.ts'
import type { CallBase } from '../../language/call.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { exposeReason } from './reason.ts'

/** An attempt that failed. */
export interface AttemptFailure {
  endpoint: Endpoint
  /** The status of the provider's response; null if none came. */
  status: number | null
  error: GatewayError
  /** Whether it is about this endpoint alone, as another takes more or can express more. */
  isOwn?: boolean
}

/**
 * Tells whether the failure is the upstream's own, so that another endpoint may do better. A bug of
 * ours is not: a fallback would only hide it.
 */
export const isWorthFallback = (error: GatewayError): boolean =>
  error.type !== 'server' && (error.status >= 500 || error.status === 429)

/**
 * Returns the error of a call without an answer: the last failure, with the previous ones and the
 * shortest wait that any provider asked for. `untriedWait` is that of endpoints that were not tried,
 * in seconds: where all are busy, the first to have room again counts.
 */
export function summarizeFailures(
  call: CallBase,
  failures: AttemptFailure[],
  untriedWait?: number,
): GatewayError {
  const last = failures.at(-1)
  if (!last) return new GatewayError('server', 'Internal Server Error')
  const { endpoint } = last
  const error = exposeReason(last.error)
  if (error.type === 'server') return error
  const isBusy = failures.every(failure => failure.error.type === 'rate_limit_exceeded')
  const retryAfter = findShortestWait(failures, isBusy ? untriedWait : undefined)
  const busy = isBusy ? describeBusyProviders(call, failures, retryAfter) : null
  return new GatewayError(error.type, busy?.message ?? error.message, {
    metadata: {
      ...error.metadata,
      provider_name: endpoint.provider.name,
      ...renderByok(endpoint),
      ...renderPreviousErrors(failures),
      ...busy?.metadata,
    },
    cause: last.error,
    status: error.status,
    reason: error.reason,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  })
}

const renderByok = ({ is_byok }: Endpoint) => (is_byok ? { is_byok: true } : {})

/**
 * `code` is the status that the failure would have had for the caller, `status` that of the
 * provider's response (wire reference K.2).
 */
function renderPreviousErrors(failures: AttemptFailure[]) {
  const previous_errors = failures.slice(0, -1).map(({ endpoint, error, status }) => ({
    provider: endpoint.provider.name,
    code: error.status,
    status,
    ...renderCause(error),
  }))
  return previous_errors.length > 0 ? { previous_errors } : {}
}

/** Returns why no answer came, where that is known: the failure of a connection. */
export const renderCause = ({ metadata: { cause } }: GatewayError) =>
  cause === undefined ? {} : { cause }

function findShortestWait(failures: AttemptFailure[], untriedWait?: number): number | undefined {
  const waits = [...failures.map(({ error }) => error.retryAfter), untriedWait].filter(
    wait => wait !== undefined,
  )
  return waits.length > 0 ? Math.min(...waits) : undefined
}

/** All providers that were tried are busy (wire reference K.9 and L.3). */
function describeBusyProviders(
  { models }: CallBase,
  failures: AttemptFailure[],
  retry_after: number | undefined,
) {
  const affected_providers = [...new Set(failures.map(({ endpoint }) => endpoint.provider.slug))]
  const wait = retry_after === undefined ? {} : { retry_after }
  const availability = {
    code: 'capacity_exhausted',
    retryable: true,
    ...wait,
    requested_models: models,
    affected_providers,
  }
  const when =
    retry_after === undefined
      ? ''
      : ` Retry after ${retry_after} ${retry_after === 1 ? 'second' : 'seconds'}.`
  return {
    message: `All providers for ${models[0]} are at capacity.${when}`,
    metadata: { availability },
  }
}
