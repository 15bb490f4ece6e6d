import type { GatewayError } from '../../errors.ts'
import { isObject, own } from '../../kernel/json.ts'
import { type Codes, failureOf, type Told } from '../failure.ts'

/** What Anthropic's error types mean. What it says of our credential or of its own model names is our trouble, not the caller's. */
const CODES: Codes = {
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

/** The status that goes with a type, where an answer has begun and there is none. Others are the provider's own trouble. */
const STATUSES: Record<string, number> = {
  invalid_request_error: 400,
  request_too_large: 413,
  rate_limit_error: 429,
}

/** What an HTTP failure means. Its words stay with us; only its type goes on. */
export function failure(status: number, body: unknown): GatewayError {
  return failureOf(status, told(isObject(body) ? body.error : undefined), CODES)
}

/** What an error inside an answer means: there is no status but the one that its type stands for. */
export function failureInside(error: unknown): GatewayError {
  const given = told(error)
  return failureOf(own(STATUSES, given.code) ?? 502, given, CODES)
}

// A refusal for the content has the type of any other bad request.
const FILTERED = /content filtering policy/i

// Google answers for Vertex in a form of its own, with a `status`.
function told(error: unknown): Told {
  if (!isObject(error)) return { code: undefined, message: undefined }
  const isFiltered = typeof error.message === 'string' && FILTERED.test(error.message)
  return {
    code: error.type ?? error.status,
    type: isFiltered ? 'content_filter' : undefined,
    message: error.message,
  }
}
