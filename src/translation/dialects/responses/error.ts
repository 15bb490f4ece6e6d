import type { ErrorType, GatewayError } from '../../../base/errors.ts'
import { getOwn } from '../../../base/json.ts'
import type { ErrorFormat } from '../dialect.ts'

/** The word by which agents know that they have to shorten the conversation. */
const TOO_LONG = 'context_length_exceeded'

/** The codes of errors in a response (wire reference L.2). All others are a `server_error`. */
const CODES: Partial<Record<ErrorType, string>> = {
  rate_limit_exceeded: 'rate_limit_exceeded',
  context_length_exceeded: TOO_LONG,
  token_limit_exceeded: TOO_LONG,
  string_too_long: TOO_LONG,
  max_tokens_exceeded: 'invalid_prompt',
  invalid_request: 'invalid_prompt',
  invalid_prompt: 'invalid_prompt',
  content_policy_violation: 'image_content_policy_violation',
}

/** Whether the request is too long, so that a shorter one may do. */
export const isTooLong = ({ type }: Pick<GatewayError, 'type'>): boolean =>
  getOwn(CODES, type) === TOO_LONG

/** The error types that are not in the public list, and the one that stands for them. */
const LISTED: Partial<Record<ErrorType, string>> = {
  conflict: 'unmapped',
  cancelled: 'unmapped',
  unavailable: 'provider_unavailable',
}

/** Renders the error of a response that has begun: its members `error` and `error_type`. */
export const renderResponseError = ({ type, message }: GatewayError) => ({
  error: { code: getOwn(CODES, type) ?? 'server_error', message },
  error_type: LISTED[type] ?? type,
})

/**
 * Renders an error in place of a response. `param` names the field that is wrong. `code` is the
 * status, but for a request that is too long (wire reference L.2).
 */
const renderError = (
  { type, status, message, metadata, siblingFields }: GatewayError,
  id: string | null,
) => ({
  error: {
    code: isTooLong({ type }) ? TOO_LONG : status,
    message,
    param: typeof metadata.field === 'string' ? metadata.field : null,
    metadata: { error_type: type, request_id: id, ...metadata },
  },
  ...siblingFields,
})

/** The usual error envelope, with the field that OpenAI's clients read. */
export const RESPONSES_ERROR_FORMAT: ErrorFormat = {
  name: 'ResponsesError',
  schema: {
    type: 'object',
    required: ['error'],
    properties: {
      error: {
        type: 'object',
        required: ['code', 'message'],
        properties: {
          code: { type: ['integer', 'string'] },
          message: { type: 'string' },
          param: { type: ['string', 'null'] },
          metadata: { type: 'object' },
        },
      },
    },
  },
  renderError,
}
