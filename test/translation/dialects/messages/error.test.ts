import { expect, test } from 'bun:test'
import { type ErrorType, GatewayError, invalid, STATUS } from '../../../../src/base/errors.ts'
import { renderMessagesError } from '../../../../src/translation/dialects/messages/error.ts'

/** The table of wire reference L.2, by type. */
const TABLE: Record<string, string[]> = {
  authentication_error: ['authentication'],
  permission_error: ['permission_denied'],
  billing_error: ['payment_required'],
  not_found_error: ['not_found', 'image_not_found'],
  rate_limit_error: ['rate_limit_exceeded'],
  overloaded_error: ['provider_overloaded'],
  timeout_error: ['timeout'],
  api_error: ['provider_unavailable', 'server', 'unmapped', 'conflict', 'unavailable', 'cancelled'],
}

test.each(Object.keys(STATUS) as ErrorType[])('%s has its type', type => {
  const expected =
    Object.keys(TABLE).find(name => TABLE[name]?.includes(type)) ?? 'invalid_request_error'
  expect(renderMessagesError(new GatewayError(type, 'No'), null).error.type).toBe(expected)
})

test('the envelope is Anthropic’s, with our own error type and metadata', () => {
  expect(renderMessagesError(invalid('model: no', 'model'), 'gen-1')).toEqual({
    type: 'error',
    error: { type: 'invalid_request_error', message: 'model: no', error_type: 'invalid_request' },
    request_id: 'gen-1',
    metadata: { field: 'model' },
  })
})

test('error types that are not in the public list are left out', () => {
  expect(renderMessagesError(new GatewayError('unavailable', 'Later'), null)).toEqual({
    type: 'error',
    error: { type: 'api_error', message: 'Later' },
    request_id: null,
  })
})
