import type { GatewayError } from '../../../base/errors.ts'
import { readOwnStatus, readProviderError, translateFailure } from '../failure.ts'

/** Returns the error for an HTTP failure of a server that speaks OpenAI's errors. */
export const readFailure = (status: number, body: unknown): GatewayError =>
  translateFailure(status, readProviderError(body))

/**
 * Returns the error for an error inside an answer, or for a failed response. Its only status is one
 * that it contains.
 */
export function readStreamFailure(value: unknown): GatewayError {
  const { type, ...error } = readProviderError(value)
  // The `type` of an `error` event only says that it is one.
  return translateFailure(readOwnStatus(value), type === 'error' ? error : { ...error, type })
}
