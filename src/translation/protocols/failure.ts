import { type ErrorType, GatewayError, type ProviderReason } from '../../base/errors.ts'
import { isObject, type Json, omitUndefined, readString } from '../../base/json.ts'
import { REFUSALS, type Refusal } from './refusals.data.ts'

/** An error as a provider reports it. */
interface ProviderError {
  /** The machine-readable code: `overloaded_error`, `RESOURCE_EXHAUSTED`, `ThrottlingException`. */
  code: unknown
  /** A second such code, for providers that send two. */
  type?: unknown
  /** The sentence for people. It decides between kinds of refusal, and becomes the reason. */
  message: unknown
  /** The parameter that the error is about. */
  param?: unknown
}

/** What a failure comes to, and what its operator has to mend at the provider. */
type Verdict = Pick<Refusal, 'type' | 'trouble'>

// The other statuses are the gateway's problem, not the caller's: the provider refuses our
// credential (401, 402, 403) or does not know the model's name (404).
const BY_STATUS: Record<number, Verdict> = {
  400: { type: 'invalid_request' },
  401: { type: 'provider_unavailable', trouble: 'credential' },
  402: { type: 'provider_unavailable', trouble: 'balance' },
  403: { type: 'provider_unavailable', trouble: 'account' },
  404: { type: 'provider_unavailable', trouble: 'model' },
  408: { type: 'timeout' },
  413: { type: 'payload_too_large' },
  422: { type: 'invalid_request' },
  429: { type: 'rate_limit_exceeded' },
  504: { type: 'timeout' },
  524: { type: 'timeout' },
  529: { type: 'provider_overloaded' },
}

const UNEXPLAINED: Verdict = { type: 'provider_unavailable' }

/**
 * Returns the error that our caller gets for an upstream failure; `status` is null for one inside a
 * stream that names none. The provider's codes and words decide if the table of refusals has them,
 * else the status. The error's own message is ours; what is clearly an identifier is passed on as
 * `metadata.provider_code`, and the rest is its reason.
 */
export function translateFailure(
  status: number | null,
  providerError: ProviderError,
): GatewayError {
  const { type, trouble } = judgeFailure(status, providerError)
  const metadata: Record<string, unknown> = {}
  const code = readIdentifier(providerError.code) ?? readIdentifier(providerError.type)
  const param = readIdentifier(providerError.param)
  if (code) metadata.provider_code = code
  if (param && type === 'invalid_request') metadata.param = param
  return new GatewayError(type, MESSAGES[type] ?? 'Provider returned error', {
    metadata,
    trouble,
    reason: buildReason(code ?? providerError.code, providerError.message),
  })
}

/**
 * Reads the error of a body, or of an event, in the forms that servers have for it: an object, a
 * sentence, a list, one within another, or next to its fields.
 */
export function readProviderError(value: unknown): ProviderError {
  const { code, status, type, message, param, metadata } = digForError(value)
  return {
    // Google and ElevenLabs have a word there, where others have a number.
    code: code == null || typeof code === 'number' ? (readString(status) ?? code) : code,
    // An upstream gateway tells its own verdict.
    type: (isObject(metadata) ? readString(metadata.error_type) : null) ?? type,
    message,
    param,
  }
}

const ERROR_NAMES = ['error', 'errors', 'detail', 'response']
const DEEPEST = 4

// What is further inside says more, and what it leaves out stands around it.
function digForError(value: unknown, depth = 0): Json {
  if (typeof value === 'string') return { message: value }
  if (Array.isArray(value)) return depth < DEEPEST ? digForError(value[0], depth + 1) : {}
  if (!isObject(value)) return {}
  const { message, msg, ...fields } = value
  const own = { ...fields, message: typeof message === 'string' ? message : msg }
  const name = ERROR_NAMES.find(one => isObject(value[one]) || Array.isArray(value[one]))
  const inner =
    name !== undefined && depth < DEEPEST
      ? digForError(value[name], depth + 1)
      : { message: message ?? ERROR_NAMES.map(one => readString(value[one])).find(Boolean) }
  return { ...own, ...omitUndefined(inner), message: inner.message ?? own.message }
}

/** Returns the status that an error inside an answer contains; null if it has none. */
export function readOwnStatus(value: unknown): number | null {
  const { code, status, status_code } = digForError(value)
  return [status, status_code, code].map(parseStatus).find(one => one !== null) ?? null
}

// A code may be an object: a number that JavaScript would round is kept as it was written.
function parseStatus(value: unknown): number | null {
  const status = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value
  return typeof status === 'number' && status >= 400 && status < 600 ? status : null
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

/** No more characters of a message are looked at. */
const MOST_JUDGED = 500

function judgeFailure(status: number | null, { code, type, message }: ProviderError): Verdict {
  const names = [code, type].flatMap(name =>
    typeof name === 'string' || typeof name === 'number' ? [String(name)] : [],
  )
  const words = [...names, typeof message === 'string' ? message.slice(0, MOST_JUDGED) : '']
  const [codes, text] = [names.join(' '), words.join(' ')]
  const known = REFUSALS.find(
    refusal =>
      (status === null || (refusal.at?.(status) ?? true)) &&
      (refusal.codes?.some(one => names.includes(one)) ||
        refusal.named?.test(codes) ||
        refusal.says?.test(text)),
  )
  return known ?? BY_STATUS[status ?? 502] ?? UNEXPLAINED
}

/** Whether the table of refusals has the code. */
export const isKnownCode = (code: unknown): boolean =>
  typeof code === 'string' && REFUSALS.some(({ codes }) => codes?.includes(code))

const MESSAGES: Partial<Record<ErrorType, string>> = {
  invalid_request: 'The provider refused the request as invalid',
  string_too_long: 'A text of the request is longer than the provider takes',
  token_limit_exceeded: 'The request has more tokens than the provider takes',
  refusal: 'The model declined to answer',
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
