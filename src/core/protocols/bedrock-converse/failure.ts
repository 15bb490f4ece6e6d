import type { ErrorType, GatewayError } from '../../errors.ts'
import { isObject, own, text } from '../../kernel/json.ts'
import { type Codes, failureOf } from '../failure.ts'

/**
 * What each exception stands for, as a status (API reference, Converse, Errors). A quota that is used up comes as a 400 there,
 * and a model that is still being loaded as a 429: the one can be waited for, the other is the provider's own trouble.
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

/** The exceptions by their own statuses, for an answer that does not name one. */
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

/** What a `ValidationException` is about, where it is not simply invalid. What it says of a model's name is our trouble. */
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

/** Reads one header of an answer by its lower-case name. */
type Header = (name: string) => string | null

/** What an HTTP failure of Bedrock means. The exception is named by a header, or by the body (AWS restJson1 protocol, Errors). */
export function failure(status: number, body: unknown, header: Header = () => null): GatewayError {
  const error = isObject(body) ? body : {}
  const name = text(header('x-amzn-errortype')) ?? text(error.__type) ?? text(error.code)
  return meaningOf(
    name === null ? NAMES[status] : nameOf(name),
    status,
    text(error.message) ?? text(error.Message),
  )
}

/** What an exception inside a streamed answer means. */
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

// `com.amazonaws.bedrock#ThrottlingException:http://…` in a header, `throttlingException` in a stream.
function nameOf(given: string): string {
  const bare = given.slice(0, 256).split(':')[0]?.split('#').at(-1)?.trim() ?? ''
  return bare.charAt(0).toUpperCase() + bare.slice(1)
}

/** Whether an event of a stream is a failure: the exceptions that Converse models, and what the service itself may say. */
export const isFailure = (event: string): boolean =>
  /(Exception|Error|Failure|Unavailable)$/i.test(event)
