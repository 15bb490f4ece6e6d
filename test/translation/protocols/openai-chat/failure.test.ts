import { describe, expect, test } from 'bun:test'
import { parseObject } from '../../../../src/base/json.ts'
import {
  readFailure,
  readStreamFailure,
} from '../../../../src/translation/protocols/openai-chat/failure.ts'

const typeOf = (status: number, error: object = {}) => readFailure(status, { error }).type

describe('readFailure', () => {
  test.each([
    [400, 'invalid_request'],
    [401, 'provider_unavailable'],
    [402, 'provider_unavailable'],
    [403, 'provider_unavailable'],
    [404, 'provider_unavailable'],
    [408, 'timeout'],
    [413, 'payload_too_large'],
    [422, 'invalid_request'],
    [429, 'rate_limit_exceeded'],
    [500, 'provider_unavailable'],
    [502, 'provider_unavailable'],
    [503, 'provider_unavailable'],
    [504, 'timeout'],
    [529, 'provider_overloaded'],
    [302, 'provider_unavailable'],
  ] as const)('status %p means %p', (status, type) => {
    expect(typeOf(status)).toBe(type)
  })

  test('recognizes a context that is too long in each provider’s wording', () => {
    expect(typeOf(400, { code: 'context_length_exceeded' })).toBe('context_length_exceeded')
    expect(typeOf(400, { message: "This model's maximum context length is 8192 tokens" })).toBe(
      'context_length_exceeded',
    )
    expect(typeOf(413, { message: 'prompt is too long: 210000 tokens' })).toBe(
      'context_length_exceeded',
    )
    expect(typeOf(500, { message: 'maximum context' })).toBe('provider_unavailable')
  })

  test('trap 99: too many tokens a minute is no context that is too long', () => {
    expect(typeOf(429, { message: 'Too many tokens, please wait before trying again.' })).toBe(
      'rate_limit_exceeded',
    )
  })

  test('recognizes a refusal for content by its code, not by its message', () => {
    expect(typeOf(400, { code: 'content_policy_violation' })).toBe('content_policy_violation')
    expect(typeOf(400, { message: 'my prompt is about moderation' })).toBe('invalid_request')
  })

  test('recognizes an overloaded provider under any status', () => {
    expect(typeOf(503, { type: 'overloaded_error' })).toBe('provider_overloaded')
    expect(typeOf(200, { message: 'The model is overloaded' })).toBe('provider_overloaded')
  })

  test('passes on the provider’s code and parameter, but not its message', () => {
    const error = {
      message: 'key sk-secret of account 42',
      code: 'unsupported_parameter',
      param: 'messages[0].name',
      type: 'invalid_request_error',
    }
    const made = readFailure(400, { error })
    expect(JSON.stringify([made.message, made.metadata])).not.toMatch(/sk-secret|42/)
    expect(made.metadata).toEqual({
      provider_code: 'unsupported_parameter',
      param: 'messages[0].name',
    })
  })

  test('does not pass on a code that is a sentence or a secret', () => {
    for (const code of ['your key sk-secret', 'sk-live-123', 'x'.repeat(65), 7, {}, ''])
      expect(readFailure(400, { error: { code } }).metadata).toEqual({})
  })

  test.each([[null], ['text'], [[]], [{ error: 'text' }], [{ error: null }], [undefined]])(
    'accepts a body of %j',
    body => {
      expect(readFailure(500, body).type).toBe('provider_unavailable')
    },
  )

  test('an error in an answer has the status that it contains, else 502', () => {
    expect(readStreamFailure({ code: 429 }).type).toBe('rate_limit_exceeded')
    expect(readStreamFailure({ status: '503' }).status).toBe(502)
    expect(readStreamFailure({ code: 'server_error' }).type).toBe('provider_unavailable')
    expect(readStreamFailure('text').type).toBe('provider_unavailable')
  })
})

test.each([
  '{"code":12345678901234567890}',
  '{"status":{"toString":1,"valueOf":1}}',
  '{"code":[503]}',
])('%s contains no status', json => {
  expect(readStreamFailure(parseObject(json)).type).toBe('provider_unavailable')
})
