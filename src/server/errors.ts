import { GatewayError, unavailable } from '../base/errors.ts'

/** Renders a failure as a body, and perhaps in headers. */
interface Envelope {
  renderError(error: GatewayError, requestId: string): unknown
  renderHeaders?(error: GatewayError): Record<string, string>
}

/** Renders the usual body (specification, Error envelope). */
const USUAL: Envelope = {
  renderError: ({ type, status, message, metadata, siblingFields }, requestId) => ({
    error: {
      code: status,
      message,
      metadata: { error_type: type, request_id: requestId, ...metadata },
    },
    ...siblingFields,
  }),
}

/** Creates the response to a failure, the only place that does. Shows nothing internal. */
export function createErrorResponse(
  thrown: unknown,
  requestId: string,
  headers: Record<string, string> = {},
  envelope: Envelope = USUAL,
): Response {
  const error = toGatewayError(thrown)
  const body = envelope.renderError(error, requestId)
  return Response.json(body, {
    status: error.status,
    headers: {
      ...headers,
      ...envelope.renderHeaders?.(error),
      ...toHintHeaders(error),
      'x-request-id': requestId,
    },
  })
}

/**
 * Returns headers about the next request: when to retry, or that this would be paid a second time,
 * which methods are allowed, and what is left of our rate limits (wire reference A.15).
 */
function toHintHeaders({
  retryAfter,
  isPaid,
  metadata: { allow, headers },
}: GatewayError): Record<string, string> {
  return {
    ...(isPaid ? { 'x-should-retry': 'false' } : {}),
    ...(retryAfter === undefined || isPaid ? {} : { 'retry-after': String(retryAfter) }),
    ...(Array.isArray(allow) ? { allow: allow.join(', ') } : {}),
    ...(headers as Record<string, string> | undefined),
  }
}

/** Whether a failure is one that nothing in the gateway expects. */
export const isBug = (thrown: unknown): boolean => {
  const { type, cause } = toGatewayError(thrown)
  return type === 'server' && cause === thrown
}

/** Converts Elysia's own failures. Anything unknown is a bug, and its message is not shown. */
function toGatewayError(thrown: unknown): GatewayError {
  const code =
    typeof thrown === 'object' && thrown !== null && 'code' in thrown ? thrown.code : undefined
  if (code === 'NOT_FOUND') return new GatewayError('not_found', 'Resource not found')
  if (code === 'PARSE' || code === 'VALIDATION')
    return new GatewayError('invalid_request', 'Invalid request parameters')
  if (isStorageFailure(code))
    return unavailable('The gateway cannot write its data now. Please try again.', RETRY, thrown)
  return GatewayError.from(thrown)
}

/** In seconds: a full disk is not mended at once. */
const RETRY = 30

const STORAGE_FAILURES = ['SQLITE_FULL', 'SQLITE_IOERR', 'SQLITE_READONLY', 'SQLITE_CANTOPEN']
const SYSTEM_FAILURES = ['ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS', 'EIO']

/** Whether the disk is full, read-only or broken: that is no bug, and passes. */
export const isStorageFailure = (code: unknown): boolean =>
  typeof code === 'string' &&
  (SYSTEM_FAILURES.includes(code) || STORAGE_FAILURES.some(one => code.startsWith(one)))
