import type { GatewayError } from '../../errors.ts'
import { isObject, type Json } from '../../kernel/json.ts'
import { type Codes, failureOf, type Told } from '../failure.ts'

const CODES: Codes = { rate_limit_exceeded: 'rate_limit_exceeded' }

/**
 * Returns the error for an HTTP failure of an OpenAI server. Its message is not passed on; only its
 * machine-readable code is.
 */
export function failure(status: number, body: unknown): GatewayError {
  const error = isObject(body) && isObject(body.error) ? body.error : isObject(body) ? body : {}
  return failureOf(status, told(error), CODES)
}

/**
 * Returns the error for an error object inside an answer. Its only status is one that it contains.
 */
export function failureInside(given: unknown): GatewayError {
  const error = isObject(given) ? given : {}
  const named = error.code ?? error.status
  const code = typeof named === 'string' ? Number(named) : named
  return failureOf(isStatus(code) ? code : 502, told(error), CODES)
}

const told = ({ code, type, message, param }: Json): Told => ({ code, type, message, param })

// A code may be an object: a number that JavaScript would round is kept as it was written.
const isStatus = (code: unknown): code is number =>
  typeof code === 'number' && code >= 400 && code < 600
