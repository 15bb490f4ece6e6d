import { type ErrorType, GatewayError, type ProviderReason } from '../errors.ts'
import { isObject } from '../kernel/json.ts'

/** An error as a provider reports it. */
export interface ProviderError {
  /** The machine-readable code: `overloaded_error`, `RESOURCE_EXHAUSTED`, `ThrottlingException`. */
  code: unknown
  /** A second such code, for providers that send two. */
  type?: unknown
  /** The sentence for people. It decides between kinds of refusal, and becomes the reason. */
  message: unknown
  /** The parameter that the error is about. */
  param?: unknown
}

/** The error type for each of the codes that one protocol's providers send. */
export type ErrorCodes = Record<string, ErrorType>

// The other statuses are the gateway's problem, not the caller's: the provider refuses our
// credential (401, 402, 403) or does not know the model's name (404).
const BY_STATUS: ErrorCodes = {
  400: 'invalid_request',
  408: 'timeout',
  413: 'payload_too_large',
  422: 'invalid_request',
  429: 'rate_limit_exceeded',
  504: 'timeout',
  524: 'timeout',
  529: 'provider_overloaded',
}

const CONTEXT = new RegExp(
  [
    'context.{0,20}(length|window|limit)',
    'maximum context',
    'too many (input |total )?tokens',
    '(prompt|input).{0,40}too long',
    'input token count.{0,60}(exceed|only supports)',
  ].join('|'),
  'i',
)
const OUTPUT_BOUND = new RegExp(
  'max_(output_|completion_)?tokens.{0,60}' +
    '(too large|exceed|at most|greater|less than or equal|maximum)',
  'i',
)
const OVERLOADED = /overloaded/i
const POLICY = /content_?policy|content_?filter|moderation|responsibleai/i

/**
 * Returns the error that our caller gets for an upstream failure. The protocol's own code decides
 * if it is known, else the provider's message and the status. The error's own message is ours; what
 * is clearly an identifier is passed on as `metadata.provider_code`, and the rest is its reason.
 */
export function translateFailure(
  status: number,
  providerError: ProviderError,
  codes: ErrorCodes = {},
): GatewayError {
  const type = findErrorType(status, providerError, codes)
  const metadata: Record<string, unknown> = {}
  const code = readIdentifier(providerError.code) ?? readIdentifier(providerError.type)
  const param = readIdentifier(providerError.param)
  if (code) metadata.provider_code = code
  if (param && type === 'invalid_request') metadata.param = param
  return new GatewayError(type, MESSAGES[type] ?? 'Provider returned error', {
    metadata,
    reason: buildReason(code ?? providerError.code, providerError.message),
  })
}

/** No more characters of a message are read. */
const MOST_READ = 4_000

/**
 * Builds the reason that a provider gives: its message on one line. `cleanReason` removes what
 * must not be shown.
 */
export const buildReason = (code: unknown, message: unknown): ProviderReason => ({
  code: typeof code === 'number' ? String(code) : (readIdentifier(code) ?? null),
  message: typeof message === 'string' ? readMessage(message) : null,
})

function readMessage(message: string): string | null {
  const line = message.slice(0, MOST_READ).replace(/\s+/g, ' ').trim()
  // The last word is cut off, and a part of a credential is not found.
  return (message.length > MOST_READ ? line.slice(0, line.lastIndexOf(' ') + 1) : line) || null
}

/**
 * Finds the message in a body of no known form: `message`, `error`, `detail` and `errors` are the
 * names that servers use (FastAPI has a list of `msg`).
 */
export function findMessage(body: unknown, depth = 0): string | undefined {
  if (typeof body === 'string') return body
  if (depth > 3) return undefined
  if (Array.isArray(body)) return findMessage(body[0], depth + 1)
  if (!isObject(body)) return undefined
  return MESSAGE_NAMES.map(name => findMessage(body[name], depth + 1)).find(Boolean)
}

const MESSAGE_NAMES = ['message', 'Message', 'msg', 'error', 'detail', 'errors', 'title']

/** The error for an answer that is cut off, empty or of an unknown shape. */
export const unreadableAnswer = (cause?: unknown) =>
  new GatewayError('provider_unavailable', 'Provider returned error', { cause })

function findErrorType(
  status: number,
  { code, type, message }: ProviderError,
  codes: ErrorCodes,
): ErrorType {
  const names = [code, type].filter(name => typeof name === 'string')
  const words = [...names, typeof message === 'string' ? message.slice(0, 500) : ''].join(' ')
  if (OVERLOADED.test(words)) return 'provider_overloaded'
  // Not for a 429: its message may mention too many tokens as well, meaning those of a minute.
  if (status < 500 && status !== 429 && CONTEXT.test(words)) return 'context_length_exceeded'
  if (status < 500 && OUTPUT_BOUND.test(words)) return 'max_tokens_exceeded'
  if (status < 500 && POLICY.test(names.join(' '))) return 'content_policy_violation'
  const known = names.find(name => Object.hasOwn(codes, name))
  return (known === undefined ? BY_STATUS[status] : codes[known]) ?? 'provider_unavailable'
}

const MESSAGES: Partial<Record<ErrorType, string>> = {
  invalid_request: 'The provider refused the request as invalid',
  max_tokens_exceeded: 'The output bound is larger than the model allows',
  context_length_exceeded: 'The request is longer than the context of the model',
  content_policy_violation: 'The provider refused the request for its content',
  payload_too_large: 'The request is larger than the provider takes',
  rate_limit_exceeded: 'Rate limit exceeded',
  timeout: 'Request timed out. Please try again later.',
}

// Accepts only what is clearly an identifier, so no sentence and no secret of a provider gets
// through.
const readIdentifier = (value: unknown) =>
  typeof value === 'string' && /^[A-Za-z_][A-Za-z0-9_.[\]]{0,63}$/.test(value) ? value : undefined
