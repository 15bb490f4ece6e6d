import type { GatewayError } from '../../../base/errors.ts'
import { readOwnStatus, readProviderError, translateFailure } from '../failure.ts'

/** Returns the error for an HTTP failure. For Vertex, Google answers in its own format. */
export const readFailure = (status: number, body: unknown): GatewayError =>
  translateFailure(status, readProviderError(body))

/** Returns the error for an `error` event inside a stream, which rarely has a status. */
export const readStreamFailure = (error: unknown): GatewayError =>
  translateFailure(readOwnStatus(error), readProviderError(error))
