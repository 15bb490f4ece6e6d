import type { GatewayError } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import { translateFailure } from '../failure.ts'

/**
 * Returns the error for an HTTP failure of Deepgram: `{ err_code, err_msg }`, or
 * `{ category, message, details }` (https://developers.deepgram.com/docs/errors).
 */
export function readFailure(status: number, body: unknown): GatewayError {
  const error = isObject(body) ? body : {}
  const code = error.err_code ?? error.category
  return translateFailure(status, { code, message: error.err_msg ?? error.message })
}
