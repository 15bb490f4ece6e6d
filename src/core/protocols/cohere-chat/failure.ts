import { GatewayError } from '../../errors.ts'
import { isObject } from '../../kernel/json.ts'
import { failureOf } from '../failure.ts'

/** Cohere's own status for a text that it does not want to read or write (https://docs.cohere.com/reference/errors). */
const BLOCKED = 498

/** What an HTTP failure of Cohere means. It says no more than a sentence, and that stays with us. */
export function failure(status: number, body: unknown): GatewayError {
  if (status === BLOCKED)
    return new GatewayError(
      'content_policy_violation',
      'The provider refused the request for its content',
    )
  return failureOf(status, { code: undefined, message: isObject(body) ? body.message : undefined })
}
