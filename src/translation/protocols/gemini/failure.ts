import type { GatewayError } from '../../../base/errors.ts'
import { isObject, type Json, readObject, readObjects, readString } from '../../../base/json.ts'
import { isKnownCode, translateFailure } from '../failure.ts'

/**
 * Returns the error for an HTTP failure of Google: `{ error: { code, message, status, details } }`,
 * which a stream wraps in a list.
 */
export function readFailure(status: number | null, body: unknown): GatewayError {
  const first = Array.isArray(body) ? body[0] : body
  const error = isObject(first) ? readObject(first, 'error') : {}
  const providerError = {
    code: findReason(error) ?? error.status,
    type: error.status,
    message: error.message,
  }
  return addRetryAfter(translateFailure(status, providerError), error)
}

/**
 * Returns the error for an error inside a stream, where the only status is the one that it names.
 */
export function readStreamFailure(error: Json): GatewayError {
  const code = typeof error.code === 'number' ? error.code : 0
  return readFailure(code >= 400 && code < 600 ? code : null, { error })
}

/** Returns `ErrorInfo.reason` if it is a known one. */
function findReason(error: Json): string | undefined {
  return readObjects(error.details)
    .flatMap(detail => readString(detail.reason) ?? [])
    .find(isKnownCode)
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
