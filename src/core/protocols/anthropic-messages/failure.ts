import type { GatewayError } from '../../errors.ts'
import { isObject } from '../../kernel/json.ts'
import {
  type ProviderError,
  readOwnStatus,
  readProviderError,
  translateFailure,
} from '../failure.ts'

/** Returns the error for an HTTP failure. */
export const readFailure = (status: number, body: unknown): GatewayError =>
  translateFailure(status, readMessagesError(isObject(body) ? (body.error ?? body) : body))

/** Returns the error for an `error` event inside a stream, which rarely has a status. */
export const readStreamFailure = (error: unknown): GatewayError =>
  translateFailure(readOwnStatus(error), readMessagesError(error))

// For Vertex, Google answers in its own format, with a `status`.
function readMessagesError(error: unknown): ProviderError {
  const { code, type, ...rest } = readProviderError(error)
  const status = isObject(error) ? error.status : undefined
  return { ...rest, code: type === 'error' ? undefined : (type ?? status), type: code }
}
