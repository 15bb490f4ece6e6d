import type { ErrorType, GatewayError } from '../../errors.ts'
import { isObject, own, text } from '../../kernel/json.ts'
import { type Codes, failureOf } from '../failure.ts'

/**
 * The status that each exception stands for (API reference, Converse, Errors). It differs from
 * Bedrock's own in places. An exceeded quota comes as 400, but waiting helps. A model that is still
 * loading comes as 429, but that is the provider's failure.
 */
const STATUSES: Record<string, number> = {
  AccessDeniedException: 403,
  InternalServerException: 500,
  ModelErrorException: 502,
  ModelNotReadyException: 503,
  ModelStreamErrorException: 502,
  ModelTimeoutException: 408,
  ResourceNotFoundException: 404,
  ServiceQuotaExceededException: 429,
  ServiceUnavailableException: 503,
  ThrottlingException: 429,
  TooManyRequestsException: 429,
  ValidationException: 400,
}

/** The exceptions by status, for an answer that names none. */
const NAMES: Record<number, string> = {
  400: 'ValidationException',
  403: 'AccessDeniedException',
  404: 'ResourceNotFoundException',
  408: 'ModelTimeoutException',
  424: 'ModelErrorException',
  429: 'ThrottlingException',
  500: 'InternalServerException',
  503: 'ServiceUnavailableException',
}

/**
 * What a `ValidationException` means where it is not simply an invalid request. Complaints about
 * the model name are the gateway's fault.
 */
const REFUSALS: [says: RegExp, type: ErrorType][] = [
  [
    /model (identifier|id)\b|inference profile|on-demand throughput|provisioned throughput/i,
    'provider_unavailable',
  ],
  [/maximum (number of )?(output )?tokens you requested/i, 'max_tokens_exceeded'],
  [
    /input tokens.{0,20}exceed|exceeds? the maximum (input|sequence|context) length/i,
    'context_length_exceeded',
  ],
  [/content filter/i, 'content_policy_violation'],
]

/** Returns the value of one response header, by its lower-case name. */
type Header = (name: string) => string | null

/**
 * Returns the error for an HTTP failure of Bedrock. A header or the body names the exception (AWS
 * restJson1 protocol, Errors).
 */
export function failure(status: number, body: unknown, header: Header = () => null): GatewayError {
  const error = isObject(body) ? body : {}
  const name = text(header('x-amzn-errortype')) ?? text(error.__type) ?? text(error.code)
  return meaningOf(
    name === null ? NAMES[status] : nameOf(name),
    status,
    text(error.message) ?? text(error.Message),
  )
}

/** Returns the error for an exception inside a stream. */
export const failureInside = (event: string, payload: unknown): GatewayError =>
  meaningOf(nameOf(event), 502, isObject(payload) ? text(payload.message) : null)

function meaningOf(name: string | undefined, status: number, message: string | null): GatewayError {
  return failureOf(
    own(STATUSES, name) ?? status,
    { code: name, message },
    name === 'ValidationException' ? refusal(message ?? '') : {},
  )
}

function refusal(message: string): Codes {
  const type = REFUSALS.find(([says]) => says.test(message))?.[1]
  return type === undefined ? {} : { ValidationException: type }
}

// A header has `com.amazonaws.bedrock#ThrottlingException:http://…`, a stream has
// `throttlingException`.
function nameOf(given: string): string {
  const bare = given.slice(0, 256).split(':')[0]?.split('#').at(-1)?.trim() ?? ''
  return bare.charAt(0).toUpperCase() + bare.slice(1)
}

/**
 * Tells whether a stream event is a failure: an exception that Converse models, or one of the
 * service itself.
 */
export const isFailure = (event: string): boolean =>
  /(Exception|Error|Failure|Unavailable)$/i.test(event)
