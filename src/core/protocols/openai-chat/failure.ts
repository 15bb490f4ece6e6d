import type { GatewayError } from '../../errors.ts'
import { isObject, type Json } from '../../kernel/json.ts'
import { type Codes, failureOf, type Told } from '../failure.ts'

const CODES: Codes = { rate_limit_exceeded: 'rate_limit_exceeded' }

/** What an HTTP failure of an OpenAI server means. Its words stay with us; only its machine-readable code goes on. */
export function failure(status: number, body: unknown): GatewayError {
  const error = isObject(body) && isObject(body.error) ? body.error : isObject(body) ? body : {}
  return failureOf(status, told(error), CODES)
}

/** What an error object inside an answer means: there is no status but the one it may name. */
export function failureInside(given: unknown): GatewayError {
  const error = isObject(given) ? given : {}
  const named = error.code ?? error.status
  const code = typeof named === 'string' ? Number(named) : named
  return failureOf(isStatus(code) ? code : 502, told(error), CODES)
}

const told = ({ code, type, message, param }: Json): Told => ({ code, type, message, param })

// Numbers can also be objects: one that JavaScript would round is kept as it was written.
const isStatus = (code: unknown): code is number =>
  typeof code === 'number' && code >= 400 && code < 600
