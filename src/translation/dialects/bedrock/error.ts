import type { GatewayError } from '../../../base/errors.ts'
import type { ErrorFormat } from '../dialect.ts'

/** Bedrock’s name for an error of each status. */
const NAMES: Record<number, string> = {
  400: 'ValidationException',
  401: 'UnrecognizedClientException',
  402: 'ServiceQuotaExceededException',
  403: 'AccessDeniedException',
  404: 'ResourceNotFoundException',
  408: 'ModelTimeoutException',
  409: 'ConflictException',
  413: 'ValidationException',
  429: 'ThrottlingException',
  502: 'ModelErrorException',
  503: 'ServiceUnavailableException',
  524: 'ModelTimeoutException',
  529: 'ServiceUnavailableException',
}

/** Names an error as Bedrock’s clients know it. */
export const nameException = ({ status }: GatewayError): string =>
  NAMES[status] ?? (status < 500 ? 'ValidationException' : 'InternalServerException')

/** The form of errors at the doors of Bedrock: clients read the name from `__type`. */
export const BEDROCK_ERROR_FORMAT: ErrorFormat = {
  name: 'BedrockError',
  schema: {
    type: 'object',
    required: ['__type', 'message'],
    properties: {
      __type: { type: 'string' },
      message: { type: 'string' },
      request_id: { type: ['string', 'null'] },
      metadata: { type: 'object' },
    },
  },
  renderError: (error, request_id) => ({
    __type: nameException(error),
    message: error.message,
    request_id,
    metadata: { ...error.metadata, error_type: error.type },
    ...error.siblingFields,
  }),
  renderHeaders: error => ({ 'x-amzn-errortype': nameException(error) }),
}
