import type { Endpoint } from '../../catalog/models.ts'
import { GatewayError } from '../../errors.ts'
import type { CallBase } from '../../language/call.ts'

/** A try that gave nothing. */
export interface Failure {
  endpoint: Endpoint
  /** What the provider answered with; null where no answer came. */
  status: number | null
  error: GatewayError
}

/** Whether the failure is the upstream's own, so that another endpoint may do better. Our own bug is not: it would only be hidden. */
export const isWorthFallback = (error: GatewayError): boolean =>
  error.type !== 'server' && (error.status >= 500 || error.status === 429)

/**
 * What a caller is told of a call that nobody answered: the last failure, with what came before it, and the shortest wait that any provider
 * asked for.
 */
export function summaryOf(call: CallBase, failures: Failure[]): GatewayError {
  const last = failures.at(-1)
  if (!last) return new GatewayError('server', 'Internal Server Error')
  const { error, endpoint } = last
  if (error.type === 'server') return error
  const retryAfter = shortestWait(failures)
  const busy = failures.every(one => one.error.type === 'rate_limit_exceeded')
    ? atCapacity(call, failures, retryAfter)
    : null
  return new GatewayError(error.type, busy?.message ?? error.message, {
    metadata: {
      ...error.metadata,
      provider_name: endpoint.provider.name,
      ...byokOf(endpoint),
      ...previousOf(failures),
      ...busy?.metadata,
    },
    cause: error,
    status: error.status,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  })
}

const byokOf = ({ is_byok }: Endpoint) => (is_byok ? { is_byok: true } : {})

/** `code` is the status that the failure would have had for the caller, `status` what the provider answered with (wire reference K.2). */
function previousOf(failures: Failure[]) {
  const previous_errors = failures.slice(0, -1).map(({ endpoint, error, status }) => ({
    provider: endpoint.provider.name,
    code: error.status,
    status,
  }))
  return previous_errors.length > 0 ? { previous_errors } : {}
}

function shortestWait(failures: Failure[]): number | undefined {
  const waits = failures.flatMap(({ error }) => error.retryAfter ?? [])
  return waits.length > 0 ? Math.min(...waits) : undefined
}

/** Everybody who was asked is busy (wire reference K.9 and L.3). */
function atCapacity({ models }: CallBase, failures: Failure[], retry_after: number | undefined) {
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
