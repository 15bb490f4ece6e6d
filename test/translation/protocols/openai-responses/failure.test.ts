import { describe, expect, test } from 'bun:test'
import {
  readFailure,
  readStreamFailure,
} from '../../../../src/translation/protocols/openai-chat/failure.ts'

describe('readFailure', () => {
  test.each([
    [400, { error: { code: 'context_length_exceeded', message: 'no' } }, 'context_length_exceeded'],
    [400, { error: { code: 'unsupported_parameter', param: 'temperature' } }, 'invalid_request'],
    [
      400,
      { error: { type: 'image_generation_user_error', code: 'moderation_blocked' } },
      'content_policy_violation',
    ],
    [400, { error: { code: 'invalid_image_format' } }, 'unsupported_image_format'],
    [400, { error: { code: 'failed_to_download_image' } }, 'image_download_failed'],
    [429, { error: { code: 'insufficient_quota' } }, 'provider_unavailable'],
    [429, { error: { code: 'rate_limit_exceeded' } }, 'rate_limit_exceeded'],
    [401, { error: { code: 'invalid_api_key' } }, 'provider_unavailable'],
    [500, { error: { code: 'server_error' } }, 'provider_unavailable'],
    [
      400,
      { code: 'invalid-argument', error: 'This model’s maximum prompt length… too many tokens' },
      'context_length_exceeded',
    ],
    [502, '<html>', 'provider_unavailable'],
    [400, null, 'invalid_request'],
  ] as const)('%p with %j is %p', (status, body, type) => {
    expect(readFailure(status, body).type).toBe(type)
  })

  test('passes on identifiers, but no messages', () => {
    const error = { code: 'unsupported_parameter', param: 'temperature', message: 'our secret' }
    expect(readFailure(400, { error })).toMatchObject({
      message: 'The provider refused the request as invalid',
      metadata: { provider_code: 'unsupported_parameter', param: 'temperature' },
    })
  })
})

describe('readStreamFailure', () => {
  test.each([
    [{ code: 'server_error', message: 'x' }, 'provider_unavailable'],
    [{ code: 'rate_limit_exceeded' }, 'rate_limit_exceeded'],
    [{ code: 'vector_store_timeout' }, 'timeout'],
    [{ code: 'image_content_policy_violation' }, 'content_policy_violation'],
    [
      { type: 'error', error: { type: 'server_error', message: 'The engine is overloaded' } },
      'provider_overloaded',
    ],
    [{ code: 429, message: 'x' }, 'rate_limit_exceeded'],
    ['x', 'provider_unavailable'],
    [null, 'provider_unavailable'],
  ] as const)('%j is %p', (given, type) => {
    expect(readStreamFailure(given).type).toBe(type)
  })

  test('the type "error" is no code of the provider', () => {
    expect(readStreamFailure({ type: 'error', message: 'x' }).metadata).toEqual({})
  })
})
