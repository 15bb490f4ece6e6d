import type { GatewayError } from '../../errors.ts'
import { isObject, type Json } from '../../kernel/json.ts'
import { type ErrorCodes, type ProviderError, translateFailure } from '../failure.ts'

const CODES: ErrorCodes = { rate_limit_exceeded: 'rate_limit_exceeded' }

/**
 * Returns the error for an HTTP failure of an OpenAI server.
 */
export function readFailure(status: number, body: unknown): GatewayError {
  const error = isObject(body) && isObject(body.error) ? body.error : isObject(body) ? body : {}
  return translateFailure(status, readProviderError(error), CODES)
}

/**
 * Returns the error for an error object inside an answer. Its only status is one that it contains.
 */
export function readStreamFailure(value: unknown): GatewayError {
  const error = isObject(value) ? value : {}
  const statusOrCode = error.code ?? error.status
  const code = typeof statusOrCode === 'string' ? Number(statusOrCode) : statusOrCode
  return translateFailure(isStatus(code) ? code : 502, readProviderError(error), CODES)
}

const readProviderError = ({ code, type, message, param }: Json): ProviderError => ({
  code,
  type,
  message,
  param,
})

// A code may be an object: a number that JavaScript would round is kept as it was written.
const isStatus = (code: unknown): code is number =>
  typeof code === 'number' && code >= 400 && code < 600
