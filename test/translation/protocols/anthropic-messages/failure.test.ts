import { describe, expect, test } from 'bun:test'
import type { ErrorType } from '../../../../src/base/errors.ts'
import {
  readFailure,
  readStreamFailure,
} from '../../../../src/translation/protocols/anthropic-messages.ts'

const body = (type: string, message = 'x') => ({
  type: 'error',
  error: { type, message },
  request_id: 'req_1',
})

describe('failures', () => {
  test.each<[number, string, string, ErrorType]>([
    [400, 'invalid_request_error', 'messages.0: bad', 'invalid_request'],
    [
      400,
      'invalid_request_error',
      'prompt is too long: 210000 tokens > 200000 maximum',
      'context_length_exceeded',
    ],
    [
      400,
      'invalid_request_error',
      'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000',
      'context_length_exceeded',
    ],
    [
      400,
      'invalid_request_error',
      'max_tokens: 99999 > 64000, which is the maximum allowed number of output tokens',
      'max_tokens_exceeded',
    ],
    [
      400,
      'invalid_request_error',
      'Output blocked by content filtering policy',
      'content_policy_violation',
    ],
    [401, 'authentication_error', 'invalid x-api-key', 'provider_unavailable'],
    [402, 'billing_error', 'no credit', 'provider_unavailable'],
    [403, 'permission_error', 'no', 'provider_unavailable'],
    [404, 'not_found_error', 'model: claude-x', 'provider_unavailable'],
    [413, 'request_too_large', 'big', 'payload_too_large'],
    [429, 'rate_limit_error', 'slow down', 'rate_limit_exceeded'],
    [500, 'api_error', 'oops', 'provider_unavailable'],
    [504, 'timeout_error', 'took a while', 'timeout'],
    [529, 'overloaded_error', 'Overloaded', 'provider_overloaded'],
    [500, 'overloaded_error', 'x', 'provider_overloaded'],
    [400, 'brand_new_error', 'x', 'invalid_request'],
    [400, 'constructor', 'x', 'invalid_request'],
  ])('trap 99: %d %s "%s" is %s', (status, type, message, expected) => {
    const error = readFailure(status, body(type, message))
    expect(error.type).toBe(expected)
    expect(error.metadata.provider_code).toBe(type)
    expect(JSON.stringify(error.metadata)).not.toContain(message === 'x' ? 'request_id' : message)
    expect(error.message).not.toContain(message === 'x' ? 'request_id' : message)
  })

  test.each<[string, ErrorType]>([
    ['overloaded_error', 'provider_overloaded'],
    ['rate_limit_error', 'rate_limit_exceeded'],
    ['invalid_request_error', 'invalid_request'],
    ['api_error', 'provider_unavailable'],
    ['brand_new_error', 'provider_unavailable'],
  ])('trap 75: %s inside an answer is %s', (type, expected) => {
    expect(readStreamFailure({ type, message: 'x' }).type).toBe(expected)
  })

  test('reads Google’s error form on Vertex', () => {
    expect(
      readFailure(429, { error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'Quota' } }),
    ).toMatchObject({
      type: 'rate_limit_exceeded',
      metadata: { provider_code: 'RESOURCE_EXHAUSTED' },
    })
  })

  test.each([
    [undefined],
    [null],
    ['<html>'],
    [[]],
    [{ error: 'x' }],
    [{ error: { type: 7, message: [] } }],
  ])('trap 100: reads %j too', given => {
    expect(readFailure(503, given).type).toBe('provider_unavailable')
    expect(readStreamFailure(given).type).toBe('provider_unavailable')
  })
})
