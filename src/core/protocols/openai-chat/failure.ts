import { type ErrorType, GatewayError } from '../../errors.ts'

type Json = Record<string, unknown>

/** What an HTTP failure of an OpenAI server means. Its words stay with us; only its machine-readable code goes on. */
export function failure(status: number, body: unknown): GatewayError {
  const error = isObject(body) && isObject(body.error) ? body.error : isObject(body) ? body : {}
  return make(typeOf(status, error), error)
}

/** What an error object inside an answer means: there is no status but the one it may name. */
export function failureOf(given: unknown): GatewayError {
  const error = isObject(given) ? given : {}
  const code = Number(error.code ?? error.status)
  return make(typeOf(code >= 400 && code < 600 ? code : 502, error), error)
}

// What the provider says of our credential (401, 402, 403) or of its own model names (404) is our trouble, not the caller's.
const BY_STATUS: Record<number, ErrorType> = {
  400: 'invalid_request',
  408: 'timeout',
  413: 'payload_too_large',
  422: 'invalid_request',
  429: 'rate_limit_exceeded',
  504: 'timeout',
  524: 'timeout',
  529: 'provider_overloaded',
}

const CONTEXT = /context.{0,20}(length|window)|maximum context|too many tokens|prompt is too long/i
const OVERLOADED = /overloaded/i
const POLICY = /content_policy|content_filter|moderation/i

function typeOf(status: number, error: Json): ErrorType {
  const words = `${error.code ?? ''} ${error.type ?? ''} ${typeof error.message === 'string' ? error.message.slice(0, 500) : ''}`
  if (OVERLOADED.test(words)) return 'provider_overloaded'
  if (status < 500 && CONTEXT.test(words)) return 'context_length_exceeded'
  if (status < 500 && POLICY.test(`${error.code} ${error.type}`)) return 'content_policy_violation'
  if (words.includes('rate_limit_exceeded')) return 'rate_limit_exceeded'
  return BY_STATUS[status] ?? 'provider_unavailable'
}

const MESSAGES: Partial<Record<ErrorType, string>> = {
  invalid_request: 'The provider refused the request as invalid',
  context_length_exceeded: 'The request is longer than the context of the model',
  content_policy_violation: 'The provider refused the request for its content',
  payload_too_large: 'The request is larger than the provider takes',
  rate_limit_exceeded: 'Rate limit exceeded',
  timeout: 'Request timed out. Please try again later.',
}

function make(type: ErrorType, error: Json): GatewayError {
  const metadata: Json = {}
  const code = identifier(error.code) ?? identifier(error.type)
  const param = identifier(error.param)
  if (code) metadata.provider_code = code
  if (param && type === 'invalid_request') metadata.param = param
  return new GatewayError(type, MESSAGES[type] ?? 'Provider returned error', { metadata })
}

// Only what is plainly an identifier: nothing that a provider could put a sentence or a secret into.
const identifier = (value: unknown) => (typeof value === 'string' && /^[A-Za-z_][A-Za-z0-9_.[\]]{0,63}$/.test(value) ? value : undefined)

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
