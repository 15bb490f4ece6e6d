import { GatewayError } from '../core/errors.ts'

/** The one place where a failure becomes the envelope (specification, Error envelope). Only what is ours to say is said. */
export function errorResponse(thrown: unknown, requestId: string, headers: Record<string, string> = {}): Response {
  const error = errorOf(thrown)
  const { type, status, message, metadata } = error
  const body = { error: { code: status, message, metadata: { error_type: type, request_id: requestId, ...metadata } } }
  return Response.json(body, { status, headers: { ...headers, ...hints(error), 'x-request-id': requestId } })
}

function hints({ retryAfter, metadata: { allow } }: GatewayError): Record<string, string> {
  if (retryAfter !== undefined) return { 'retry-after': String(retryAfter) }
  return Array.isArray(allow) ? { allow: allow.join(', ') } : {}
}

/** Elysia's own failures in our words; whatever is not known is a bug, and says nothing. */
function errorOf(thrown: unknown): GatewayError {
  const code = typeof thrown === 'object' && thrown !== null && 'code' in thrown ? thrown.code : undefined
  if (code === 'NOT_FOUND') return new GatewayError('not_found', 'Resource not found')
  if (code === 'PARSE' || code === 'VALIDATION') return new GatewayError('invalid_request', 'Invalid request parameters')
  return GatewayError.from(thrown)
}
