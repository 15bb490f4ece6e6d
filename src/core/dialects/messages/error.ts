import type { ErrorType, GatewayError } from '../../errors.ts'
import type { Refusal } from '../dialect.ts'

/** What Anthropic's clients call each kind of failure (wire reference L.2). What is not listed is an `api_error`. */
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

/** The two types of ours that the public list does not know: their names stay out of `error_type`. */
const UNLISTED: readonly ErrorType[] = ['conflict', 'unavailable']

/** A failure as Anthropic's clients know it, whole or as the data of an `error` event. `request_id` is the generation's, if there is one. */
export const messagesError = (
  { type, message, metadata, besides }: GatewayError,
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
  ...besides,
})

/** Refusals in Anthropic's format, also of what is refused before the body is read. */
export const REFUSAL: Refusal = {
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
  envelope: messagesError,
}
