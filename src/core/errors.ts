/**
 * The canonical error types and the status each answers with: the specification's 27 (Errors, 8), plus two it has no name for.
 * Where the public service and the specification differ (timeout, provider_overloaded), the specification rules.
 */
export const STATUS = {
  context_length_exceeded: 400,
  max_tokens_exceeded: 400,
  token_limit_exceeded: 400,
  string_too_long: 400,
  authentication: 401,
  permission_denied: 403,
  payment_required: 402,
  rate_limit_exceeded: 429,
  provider_overloaded: 529,
  provider_unavailable: 502,
  invalid_request: 400,
  invalid_prompt: 400,
  not_found: 404,
  precondition_failed: 412,
  payload_too_large: 413,
  unprocessable: 422,
  content_policy_violation: 400,
  refusal: 400,
  invalid_image: 400,
  image_too_large: 400,
  image_too_small: 400,
  unsupported_image_format: 400,
  image_not_found: 404,
  image_download_failed: 400,
  server: 500,
  timeout: 524,
  unmapped: 500,
  conflict: 409,
  unavailable: 503,
} as const

export type ErrorType = keyof typeof STATUS

export interface ErrorDetails {
  /** Facts for the caller's program. Never a secret, never a third party's text. */
  metadata?: Record<string, unknown>
  /** What was thrown below. For the log only. */
  cause?: unknown
  /** Where HTTP has a better status than the type's own (405, 408, 415). */
  status?: number
  /** Seconds after which trying again makes sense. */
  retryAfter?: number | undefined
  /** Members that stand beside `error` in the body. */
  besides?: Record<string, unknown> | undefined
}

/** A failure that the caller may see: a canonical type, a sentence for a person, and facts for a program. */
export class GatewayError extends Error {
  readonly type: ErrorType
  readonly status: number
  readonly metadata: Record<string, unknown>
  readonly retryAfter: number | undefined
  readonly besides: Record<string, unknown> | undefined

  constructor(
    type: ErrorType,
    message: string,
    { metadata = {}, cause, status = STATUS[type], retryAfter, besides }: ErrorDetails = {},
  ) {
    super(message, { cause })
    this.name = 'GatewayError'
    this.type = type
    this.status = status
    this.metadata = metadata
    this.retryAfter = retryAfter
    this.besides = besides
  }

  /** The same failure with these members beside it. Another object: one failure may end several calls. */
  beside(besides: Record<string, unknown>): GatewayError {
    const { type, message, metadata, cause, status, retryAfter } = this
    return new GatewayError(type, message, { metadata, cause, status, retryAfter, besides })
  }

  /** Any thrown value as a GatewayError: what is not ours is a bug, and says no more than "Internal Server Error". */
  static from(thrown: unknown): GatewayError {
    return thrown instanceof GatewayError
      ? thrown
      : new GatewayError('server', 'Internal Server Error', { cause: thrown })
  }
}

/** The request is not valid; `field` names the member that is wrong. 400. */
export const invalid = (message: string, field?: string) =>
  new GatewayError('invalid_request', message, field === undefined ? {} : { metadata: { field } })

/** There is no such thing, or not for this caller. 404. */
export const notFound = (message = 'Resource not found') => new GatewayError('not_found', message)

/** Returns what was looked for. Throws 404 with its name where there is none. */
export function requireFound<Found>(found: Found | undefined, name: string): Found {
  if (found === undefined) throw notFound(`${name} not found`)
  return found
}

/** Another state of the thing stands in the way. 409. */
export const conflict = (message = 'Resource conflict. Please try again later.') =>
  new GatewayError('conflict', message)

/** Who is asking is not known. 401. */
export const unauthenticated = (message: string) => new GatewayError('authentication', message)

/** Who is asking is known, and may not. 403. */
export const denied = (message: string) => new GatewayError('permission_denied', message)

/** The body is larger than this door takes. 413. */
export const tooLarge = (message = 'Request payload too large') =>
  new GatewayError('payload_too_large', message)

/** The gateway itself cannot take work now. 503, with a hint when to try again. */
export const unavailable = (
  message = 'Service temporarily unavailable',
  retryAfter = 5,
  cause?: unknown,
) => new GatewayError('unavailable', message, { retryAfter, cause })
