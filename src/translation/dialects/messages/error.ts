import type { ErrorType, GatewayError } from '../../../base/errors.ts'
import type { ErrorFormat } from '../dialect.ts'

/** Anthropic's name for each error type (wire reference L.2). All others are an `api_error`. */
const TYPES: Partial<Record<ErrorType, string>> = {
  authentication: 'authentication_error',
  permission_denied: 'permission_error',
  payment_required: 'billing_error',
  not_found: 'not_found_error',
  image_not_found: 'not_found_error',
  rate_limit_exceeded: 'rate_limit_error',
  provider_overloaded: 'overloaded_error',
  timeout: 'timeout_error',
  context_length_exceeded: 'invalid_request_error',
  max_tokens_exceeded: 'invalid_request_error',
  token_limit_exceeded: 'invalid_request_error',
  string_too_long: 'invalid_request_error',
  invalid_request: 'invalid_request_error',
  invalid_prompt: 'invalid_request_error',
  precondition_failed: 'invalid_request_error',
  payload_too_large: 'invalid_request_error',
  unprocessable: 'invalid_request_error',
  content_policy_violation: 'invalid_request_error',
  refusal: 'invalid_request_error',
  invalid_image: 'invalid_request_error',
  image_too_large: 'invalid_request_error',
  image_too_small: 'invalid_request_error',
  unsupported_image_format: 'invalid_request_error',
  image_download_failed: 'invalid_request_error',
}

/** The error types that are not in the public list. They are left out of `error_type`. */
const UNLISTED: readonly ErrorType[] = ['conflict', 'unavailable', 'cancelled']

/**
 * Renders an error in Anthropic's format, as a body or as the data of an `error` event.
 * `request_id` is the generation's id, if there is one.
 */
export const renderMessagesError = (
  { type, message, metadata, siblingFields }: GatewayError,
  request_id: string | null,
) => ({
  type: 'error' as const,
  error: {
    type: TYPES[type] ?? 'api_error',
    message,
    ...(UNLISTED.includes(type) ? {} : { error_type: type }),
  },
  request_id,
  ...(Object.keys(metadata).length > 0 ? { metadata } : {}),
  ...siblingFields,
})

/** Anthropic's error format. It also applies to requests that fail before their body is read. */
export const MESSAGES_ERROR_FORMAT: ErrorFormat = {
  name: 'AnthropicError',
  schema: {
    type: 'object',
    required: ['type', 'error', 'request_id'],
    properties: {
      type: { type: 'string', const: 'error' },
      error: {
        type: 'object',
        required: ['type', 'message'],
        properties: {
          type: { type: 'string' },
          message: { type: 'string' },
          error_type: { type: 'string' },
        },
      },
      request_id: { type: ['string', 'null'] },
      metadata: { type: 'object' },
    },
  },
  renderError: renderMessagesError,
}
