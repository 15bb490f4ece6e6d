/**
 * The canonical error types with the HTTP status of each: the 27 of the specification (Errors, 8)
 * and three that it does not name. Where the public service and the specification differ (timeout,
 * provider_overloaded), the specification rules.
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
  cancelled: 499,
} as const

export type ErrorType = keyof typeof STATUS

/**
 * Why a provider says that it failed: its own code and its own words, cut and without credentials.
 * For the log and the record; `attempt/reason.ts` decides what a caller gets of it.
 */
export interface ProviderReason {
  code: string | null
  message: string | null
}

/** What is wrong between the operator and a provider, which no change of a request would mend. */
export type Trouble = 'balance' | 'account' | 'credential' | 'model'

export interface ErrorDetails {
  /** Facts for the caller's program. Never contains a secret or a third party's text. */
  metadata?: Record<string, unknown>
  /** The underlying error, for the log only. */
  cause?: unknown
  /** Set when HTTP has a more precise status than the type's own (405, 408, 415). */
  status?: number
  /** Seconds after which a retry makes sense. */
  retryAfter?: number | undefined
  /** Why the provider says that it failed. */
  reason?: ProviderReason | undefined
  /** What its operator has to mend at the provider. */
  trouble?: Trouble | undefined
  /** Whether the call is on record as a generation. */
  isRecorded?: boolean
  /** Whether the call was paid for: who repeats it pays again. */
  isPaid?: boolean
  /** Members that the body has next to `error`. */
  siblingFields?: Record<string, unknown> | undefined
}

/** A failure that the caller may see: a canonical type, a sentence and facts for a program. */
export class GatewayError extends Error {
  readonly type: ErrorType
  readonly status: number
  readonly metadata: Record<string, unknown>
  readonly retryAfter: number | undefined
  readonly reason: ProviderReason | undefined
  readonly trouble: Trouble | undefined
  readonly isRecorded: boolean
  readonly isPaid: boolean
  readonly siblingFields: Record<string, unknown> | undefined

  constructor(
    type: ErrorType,
    message: string,
    {
      metadata = {},
      cause,
      status = STATUS[type],
      retryAfter,
      reason,
      trouble,
      isRecorded = false,
      isPaid = false,
      siblingFields,
    }: ErrorDetails = {},
  ) {
    super(message, { cause })
    this.name = 'GatewayError'
    this.type = type
    this.status = status
    this.metadata = metadata
    this.retryAfter = retryAfter
    this.reason = reason
    this.trouble = trouble
    this.isRecorded = isRecorded
    this.isPaid = isPaid
    this.siblingFields = siblingFields
  }

  /** Returns a copy with other details. A copy, because one failure may end several calls. */
  with(changes: ErrorDetails & { message?: string }): GatewayError {
    const { type, metadata, cause, status, retryAfter, reason } = this
    const { trouble, isRecorded, isPaid, siblingFields } = this
    const known = { metadata, cause, status, retryAfter, reason }
    const details = { ...known, trouble, isRecorded, isPaid, siblingFields }
    return new GatewayError(type, changes.message ?? this.message, { ...details, ...changes })
  }

  /**
   * Converts any thrown value to a GatewayError. Memory that cannot be had is 503. Any other error
   * is a bug, and is shown as "Internal Server Error" only.
   */
  static from(thrown: unknown): GatewayError {
    if (thrown instanceof GatewayError) return thrown
    return thrown instanceof RangeError && thrown.message === 'Out of memory'
      ? unavailable('There is no memory for this now', 5, thrown)
      : new GatewayError('server', 'Internal Server Error', { cause: thrown })
  }
}

/**
 * Whether the request itself was refused, so that the provider's words are for those who sent it.
 * What a provider says of our account with it, or of its own state, is not.
 */
export const isCallersFault = (type: ErrorType): boolean => {
  const status = STATUS[type]
  return status < 500 && ![401, 402, 403, 429, 499].includes(status)
}

/** The request is invalid; `field` names the wrong member. 400. */
export const invalid = (message: string, field?: string) =>
  new GatewayError('invalid_request', message, field === undefined ? {} : { metadata: { field } })

/** The resource does not exist, or this caller may not see it. 404. */
export const notFound = (message = 'Resource not found') => new GatewayError('not_found', message)

/** Returns `found`. Throws 404 with the name of the resource if it is undefined. */
export function requireFound<Found>(found: Found | undefined, name: string): Found {
  if (found === undefined) throw notFound(`${name} not found`)
  return found
}

/** The current state of the resource does not allow the operation. 409. */
export const conflict = (message = 'Resource conflict. Please try again later.') =>
  new GatewayError('conflict', message)

/** The caller is not known. 401. */
export const unauthenticated = (message: string) => new GatewayError('authentication', message)

/** The caller is known, but not allowed. 403. */
export const denied = (message: string) => new GatewayError('permission_denied', message)

/** The body is larger than this route accepts. 413. */
export const tooLarge = (message = 'Request payload too large') =>
  new GatewayError('payload_too_large', message)

/** The gateway cannot accept work now. 503, with the number of seconds after which to retry. */
export const unavailable = (
  message = 'Service temporarily unavailable',
  retryAfter = 5,
  cause?: unknown,
) => new GatewayError('unavailable', message, { retryAfter, cause })
