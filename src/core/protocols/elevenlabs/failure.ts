import type { GatewayError } from '../../errors.ts'
import { isObject, readObject, readObjects } from '../../kernel/json.ts'
import { translateFailure } from '../failure.ts'

/**
 * Returns the error for an HTTP failure of ElevenLabs: `{ detail: { status, message } }`, or a list
 * of `{ msg }` for a body that does not fit.
 */
export function readFailure(status: number, body: unknown): GatewayError {
  const detail = isObject(body) ? readObject(body, 'detail') : {}
  const [first = {}] = isObject(body) ? readObjects(body.detail) : []
  const code = detail.status ?? detail.code ?? first.type
  return translateFailure(status, { code, message: detail.message ?? first.msg })
}
