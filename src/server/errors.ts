import { GatewayError } from '../core/errors.ts'

/** How a failure looks in a body. */
export type Envelope = (error: GatewayError, requestId: string) => unknown

/** The usual one (specification, Error envelope). */
const usual: Envelope = ({ type, status, message, metadata, besides }, requestId) => ({
  error: {
    code: status,
    message,
    metadata: { error_type: type, request_id: requestId, ...metadata },
  },
  ...besides,
})

/** The one place where a failure becomes a response. Only what is ours to say is said. */
export function errorResponse(
  thrown: unknown,
  requestId: string,
  headers: Record<string, string> = {},
  envelope: Envelope = usual,
): Response {
  const error = errorOf(thrown)
  const body = envelope(error, requestId)
  return Response.json(body, {
    status: error.status,
    headers: { ...headers, ...hints(error), 'x-request-id': requestId },
  })
}

/** What the status means for the next request: when it makes sense, and what is left of a limit of ours (wire reference A.15). */
function hints({ retryAfter, metadata: { allow, headers } }: GatewayError): Record<string, string> {
  return {
    ...(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }),
    ...(Array.isArray(allow) ? { allow: allow.join(', ') } : {}),
    ...(headers as Record<string, string> | undefined),
  }
}

/** Elysia's own failures in our words; whatever is not known is a bug, and says nothing. */
function errorOf(thrown: unknown): GatewayError {
  const code =
    typeof thrown === 'object' && thrown !== null && 'code' in thrown ? thrown.code : undefined
  if (code === 'NOT_FOUND') return new GatewayError('not_found', 'Resource not found')
  if (code === 'PARSE' || code === 'VALIDATION')
    return new GatewayError('invalid_request', 'Invalid request parameters')
  return GatewayError.from(thrown)
}
