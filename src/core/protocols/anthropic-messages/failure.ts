import type { GatewayError } from '../../errors.ts'
import { getOwn, isObject } from '../../kernel/json.ts'
import { type ErrorCodes, type ProviderError, translateFailure } from '../failure.ts'

/**
 * What Anthropic's error types mean. Errors about our credential or the upstream model name are the
 * gateway's fault, not the caller's.
 */
const CODES: ErrorCodes = {
  invalid_request_error: 'invalid_request',
  request_too_large: 'payload_too_large',
  rate_limit_error: 'rate_limit_exceeded',
  overloaded_error: 'provider_overloaded',
  timeout_error: 'timeout',
  authentication_error: 'provider_unavailable',
  permission_error: 'provider_unavailable',
  billing_error: 'provider_unavailable',
  not_found_error: 'provider_unavailable',
  api_error: 'provider_unavailable',
}

/**
 * The status that belongs to an error type, for errors inside a stream, which have none. All other
 * types are failures of the provider.
 */
const STATUS_BY_TYPE: Record<string, number> = {
  invalid_request_error: 400,
  request_too_large: 413,
  rate_limit_error: 429,
}

/**
 * Returns the error for an HTTP failure.
 */
export function readFailure(status: number, body: unknown): GatewayError {
  return translateFailure(status, readProviderError(isObject(body) ? body.error : undefined), CODES)
}

/**
 * Returns the error for an `error` event inside a stream. It has no status, so the error type
 * supplies one.
 */
export function readStreamFailure(error: unknown): GatewayError {
  const providerError = readProviderError(error)
  return translateFailure(getOwn(STATUS_BY_TYPE, providerError.code) ?? 502, providerError, CODES)
}

// A refusal for content has the same type as any other bad request.
const CONTENT_FILTERED = /content filtering policy/i

// For Vertex, Google answers in its own format, with a `status`.
function readProviderError(error: unknown): ProviderError {
  if (!isObject(error)) return { code: undefined, message: undefined }
  const isFiltered = typeof error.message === 'string' && CONTENT_FILTERED.test(error.message)
  return {
    code: error.type ?? error.status,
    type: isFiltered ? 'content_filter' : undefined,
    message: error.message,
  }
}
