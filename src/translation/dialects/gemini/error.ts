import type { GatewayError } from '../../../base/errors.ts'
import type { ErrorFormat } from '../dialect.ts'

/** Google’s word for each status. */
const WORDS: Record<number, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'RESOURCE_EXHAUSTED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  503: 'UNAVAILABLE',
  524: 'DEADLINE_EXCEEDED',
  529: 'UNAVAILABLE',
}

/** Renders an error as Google’s APIs do, as a body or as the last event of a stream. */
export const renderGeminiError = (
  { status, type, message, metadata, retryAfter, siblingFields }: GatewayError,
  id: string | null,
) => ({
  error: {
    code: status,
    message,
    status: WORDS[status] ?? (status < 500 ? 'FAILED_PRECONDITION' : 'INTERNAL'),
    details: [
      {
        '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
        reason: type.toUpperCase(),
        domain: 'gateway',
        metadata: { ...toTexts(metadata), ...(id === null ? {} : { request_id: id }) },
      },
      // Google’s own clients wait for as long.
      ...(retryAfter === undefined
        ? []
        : [
            {
              '@type': 'type.googleapis.com/google.rpc.RetryInfo',
              retryDelay: `${retryAfter}s`,
            },
          ]),
    ],
  },
  ...siblingFields,
})

const toTexts = (metadata: Record<string, unknown>) =>
  Object.fromEntries(
    Object.entries(metadata).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  )

/** The form of errors at the doors of the Gemini API. */
export const GEMINI_ERROR_FORMAT: ErrorFormat = {
  name: 'GoogleError',
  schema: {
    type: 'object',
    required: ['error'],
    properties: {
      error: {
        type: 'object',
        required: ['code', 'message', 'status', 'details'],
        properties: {
          code: { type: 'integer' },
          message: { type: 'string' },
          status: { type: 'string' },
          details: { type: 'array', items: { type: 'object' } },
        },
      },
    },
  },
  renderError: renderGeminiError,
}
