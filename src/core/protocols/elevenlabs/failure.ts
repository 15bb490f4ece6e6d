import type { GatewayError } from '../../errors.ts'
import { isObject, readObject, readObjects } from '../../kernel/json.ts'
import { type ErrorCodes, translateFailure } from '../failure.ts'

const CODES: ErrorCodes = {
  voice_not_found: 'invalid_request',
  invalid_uid: 'invalid_request',
  invalid_voice_settings: 'invalid_request',
  max_character_limit_exceeded: 'invalid_request',
  too_many_concurrent_requests: 'rate_limit_exceeded',
  system_busy: 'provider_overloaded',
}

/**
 * Returns the error for an HTTP failure of ElevenLabs: `{ detail: { status, message } }`, or a list
 * of `{ msg }` for a body that does not fit.
 */
export function readFailure(status: number, body: unknown): GatewayError {
  const detail = isObject(body) ? readObject(body, 'detail') : {}
  const [first = {}] = isObject(body) ? readObjects(body.detail) : []
  const code = detail.status ?? detail.code ?? first.type
  return translateFailure(status, { code, message: detail.message ?? first.msg }, CODES)
}
