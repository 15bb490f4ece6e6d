import type { GatewayError } from '../../errors.ts'
import { isObject, type Json } from '../../kernel/json.ts'
import { type ErrorCodes, type ProviderError, translateFailure } from '../failure.ts'

/**
 * The codes of a failed response (OpenAI API reference, ResponseError), and those of its HTTP
 * failures.
 */
const CODES: ErrorCodes = {
  server_error: 'provider_unavailable',
  rate_limit_exceeded: 'rate_limit_exceeded',
  context_length_exceeded: 'context_length_exceeded',
  invalid_prompt: 'invalid_prompt',
  bio_policy: 'content_policy_violation',
  cyber_policy: 'content_policy_violation',
  vector_store_timeout: 'timeout',
  invalid_image: 'invalid_image',
  invalid_image_format: 'unsupported_image_format',
  invalid_base64_image: 'invalid_image',
  invalid_image_url: 'invalid_image',
  invalid_image_mode: 'invalid_image',
  image_parse_error: 'invalid_image',
  empty_image_file: 'invalid_image',
  image_too_large: 'image_too_large',
  image_file_too_large: 'image_too_large',
  image_too_small: 'image_too_small',
  image_content_policy_violation: 'content_policy_violation',
  unsupported_image_media_type: 'unsupported_image_format',
  failed_to_download_image: 'image_download_failed',
  image_file_not_found: 'image_not_found',
}

/**
 * Returns the error for an HTTP failure. xAI sends its message in `error` and the code beside it;
 * the others send an object there.
 */
export function readFailure(status: number, body: unknown): GatewayError {
  const reported = isObject(body) ? body : {}
  return translateFailure(
    status,
    readProviderError(isObject(reported.error) ? reported.error : reported),
    CODES,
  )
}

/**
 * Returns the error for an `error` event or a failed response. Its only status is the one that it
 * may contain.
 */
export function readStreamFailure(value: unknown): GatewayError {
  const error = isObject(value) ? (isObject(value.error) ? value.error : value) : {}
  const status = [error.status, error.code]
    .map(parseStatus)
    .find(candidate => candidate !== undefined)
  return translateFailure(status ?? 502, readProviderError(error), CODES)
}

function parseStatus(value: unknown): number | undefined {
  const status = typeof value === 'string' ? Number(value) : value
  return typeof status === 'number' && status >= 400 && status < 600 ? status : undefined
}

// The `type` of an `error` event without an inner error only says that it is one.
const readProviderError = ({ code, type, message, error, param }: Json): ProviderError => ({
  code,
  type: type === 'error' ? undefined : type,
  message: message ?? error,
  param,
})
