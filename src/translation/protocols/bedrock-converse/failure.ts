import type { GatewayError } from '../../../base/errors.ts'
import { getOwn, isObject, readString } from '../../../base/json.ts'
import { translateFailure } from '../failure.ts'

/**
 * The status that each exception stands for (API reference, Converse, Errors). It differs from
 * Bedrock's own in places. An exceeded quota comes as 400, but waiting helps. A model that is still
 * loading comes as 429, but that is the provider's failure.
 */
const STATUS_BY_EXCEPTION: Record<string, number> = {
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
const EXCEPTION_BY_STATUS: Record<number, string> = {
  400: 'ValidationException',
  403: 'AccessDeniedException',
  404: 'ResourceNotFoundException',
  408: 'ModelTimeoutException',
  424: 'ModelErrorException',
  429: 'ThrottlingException',
  500: 'InternalServerException',
  503: 'ServiceUnavailableException',
}

/** Returns the value of one response header, by its lower-case name. */
type ReadHeader = (name: string) => string | null

/**
 * Returns the error for an HTTP failure of Bedrock. A header or the body names the exception (AWS
 * restJson1 protocol, Errors).
 */
export function readFailure(
  status: number,
  body: unknown,
  header: ReadHeader = () => null,
): GatewayError {
  const error = isObject(body) ? body : {}
  const name =
    readString(header('x-amzn-errortype')) ?? readString(error.__type) ?? readString(error.code)
  return toGatewayError(
    name === null ? EXCEPTION_BY_STATUS[status] : normalizeExceptionName(name),
    status,
    readString(error.message) ?? readString(error.Message),
  )
}

/** Returns the error for an exception inside a stream. */
export const readStreamFailure = (event: string, payload: unknown): GatewayError =>
  toGatewayError(
    normalizeExceptionName(event),
    502,
    isObject(payload) ? readString(payload.message) : null,
  )

function toGatewayError(
  name: string | undefined,
  status: number,
  message: string | null,
): GatewayError {
  return translateFailure(getOwn(STATUS_BY_EXCEPTION, name) ?? status, { code: name, message })
}

// A header has `com.amazonaws.bedrock#ThrottlingException:http://…`, a stream has
// `throttlingException`.
function normalizeExceptionName(exception: string): string {
  const bare = exception.slice(0, 256).split(':')[0]?.split('#').at(-1)?.trim() ?? ''
  return bare.charAt(0).toUpperCase() + bare.slice(1)
}

/**
 * Tells whether a stream event is a failure: an exception that Converse models, or one of the
 * service itself.
 */
export const isFailureEvent = (event: string): boolean =>
  /(Exception|Error|Failure|Unavailable)$/i.test(event)
