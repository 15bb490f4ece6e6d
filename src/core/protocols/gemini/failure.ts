import type { GatewayError } from '../../errors.ts'
import { isObject, type Json, readObject, readObjects, readString } from '../../kernel/json.ts'
import { type ErrorCodes, translateFailure } from '../failure.ts'

/** The meaning of Google's statuses, and of the more specific reasons in their details. */
const CODES: ErrorCodes = {
  INVALID_ARGUMENT: 'invalid_request',
  OUT_OF_RANGE: 'invalid_request',
  RESOURCE_EXHAUSTED: 'rate_limit_exceeded',
  DEADLINE_EXCEEDED: 'timeout',
  // An invalid key comes as an invalid argument. A country or account that is not allowed comes as
  // a failed precondition.
  API_KEY_INVALID: 'provider_unavailable',
  API_KEY_EXPIRED: 'provider_unavailable',
  FAILED_PRECONDITION: 'provider_unavailable',
  PERMISSION_DENIED: 'provider_unavailable',
  UNAUTHENTICATED: 'provider_unavailable',
  NOT_FOUND: 'provider_unavailable',
  UNAVAILABLE: 'provider_unavailable',
}

/**
 * Returns the error for an HTTP failure of Google: `{ error: { code, message, status, details } }`,
 * which a stream wraps in a list.
 */
export function readFailure(status: number, body: unknown): GatewayError {
  const first = Array.isArray(body) ? body[0] : body
  const error = isObject(first) ? readObject(first, 'error') : {}
  const providerError = {
    code: findReason(error) ?? error.status,
    type: error.status,
    message: error.message,
  }
  return addRetryAfter(translateFailure(status, providerError, CODES), error)
}

/**
 * Returns the error for an error inside a stream, where the only status is the one that it names.
 */
export function readStreamFailure(error: Json): GatewayError {
  const code = typeof error.code === 'number' ? error.code : 502
  return readFailure(code >= 400 && code < 600 ? code : 502, { error })
}

/** Returns `ErrorInfo.reason` if it is a known one. */
function findReason(error: Json): string | undefined {
  return readObjects(error.details)
    .flatMap(detail => readString(detail.reason) ?? [])
    .find(reason => Object.hasOwn(CODES, reason))
}

const LONGEST_WAIT = 300

/** Adds the delay that `RetryInfo.retryDelay` asks for, in seconds: `"34.07s"`. */
function addRetryAfter(error: GatewayError, body: Json): GatewayError {
  const delays = readObjects(body.details).map(
    detail => /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(readString(detail.retryDelay) ?? '')?.[1],
  )
  const delay = delays.find(one => one !== undefined)
  if (delay === undefined || error.type !== 'rate_limit_exceeded') return error
  const retryAfter = Math.min(Math.ceil(Number(delay)), LONGEST_WAIT)
  return error.with({ retryAfter })
}
