import { GatewayError } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import { translateFailure } from '../failure.ts'

/**
 * Cohere's own status for text that it refuses to read or write
 * (https://docs.cohere.com/reference/errors).
 */
const BLOCKED = 498

/**
 * Returns the error for an HTTP failure of Cohere. Its body has only a sentence.
 */
export function readFailure(status: number, body: unknown): GatewayError {
  if (status === BLOCKED)
    return new GatewayError(
      'content_policy_violation',
      'The provider refused the request for its content',
    )
  return translateFailure(status, {
    code: undefined,
    message: isObject(body) ? body.message : undefined,
  })
}
