import { describe, expect, test } from 'bun:test'
import {
  readFailure,
  readStreamFailure,
} from '../../../../src/translation/protocols/gemini/failure.ts'

const body = (code: number, status: string, message = 'secret words', details?: unknown) => ({
  error: { code, message, status, details },
})

describe('failure', () => {
  test.each([
    [400, 'INVALID_ARGUMENT', 'invalid_request'],
    [400, 'FAILED_PRECONDITION', 'provider_unavailable'],
    [401, 'UNAUTHENTICATED', 'provider_unavailable'],
    [403, 'PERMISSION_DENIED', 'provider_unavailable'],
    [404, 'NOT_FOUND', 'provider_unavailable'],
    [429, 'RESOURCE_EXHAUSTED', 'rate_limit_exceeded'],
    [500, 'INTERNAL', 'provider_unavailable'],
    [503, 'UNAVAILABLE', 'provider_unavailable'],
    [504, 'DEADLINE_EXCEEDED', 'timeout'],
  ] as const)('trap 99: %i %s is %s', (code, status, type) => {
    const error = readFailure(code, body(code, status))
    expect(error).toMatchObject({ type, metadata: { provider_code: status } })
    expect(JSON.stringify(error.metadata) + error.message).not.toContain('secret')
  })

  test('recognizes an overloaded model by its sentence', () => {
    expect(
      readFailure(503, body(503, 'UNAVAILABLE', 'The model is overloaded. Please try again later.'))
        .type,
    ).toBe('provider_overloaded')
  })

  test.each([
    'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
    'Unable to submit request because the input token count is 2000000 ' +
      'but model only supports up to 1048576.',
  ])('recognizes a request that is too long by its sentence: %s', message => {
    expect(readFailure(400, body(400, 'INVALID_ARGUMENT', message)).type).toBe(
      'context_length_exceeded',
    )
  })

  test('blames the gateway for an invalid key, though Google calls it an argument', () => {
    const details = [
      { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' },
    ]
    expect(readFailure(400, body(400, 'INVALID_ARGUMENT', 'x', details))).toMatchObject({
      type: 'provider_unavailable',
      metadata: { provider_code: 'API_KEY_INVALID' },
    })
  })

  test.each([
    ['34.07s', 35],
    ['0s', 0],
    ['999999s', 300],
    ['-5s', undefined],
    ['soon', undefined],
  ])('a delay of %s is %p seconds', (retryDelay, seconds) => {
    const details = [7, { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay }]
    expect(readFailure(429, body(429, 'RESOURCE_EXHAUSTED', 'x', details)).retryAfter).toBe(
      seconds as never,
    )
  })

  test('trap 78: reads an error in a list', () => {
    expect(readFailure(429, [body(429, 'RESOURCE_EXHAUSTED')])).toMatchObject({
      type: 'rate_limit_exceeded',
    })
  })

  const NONE = [
    undefined,
    null,
    '<html>',
    [],
    [[]],
    { error: 'x' },
    { error: { details: { a: 1 }, status: 7, message: [] } },
  ]

  test.each(NONE.map(given => [given]))('trap 100: classifies %j by its status', given => {
    expect(readFailure(503, given).type).toBe('provider_unavailable')
    expect(readFailure(429, given).type).toBe('rate_limit_exceeded')
  })

  test('takes the status that an error inside an answer names', () => {
    expect(readStreamFailure({ code: 429, status: 'RESOURCE_EXHAUSTED' }).type).toBe(
      'rate_limit_exceeded',
    )
    expect(readStreamFailure({ code: 7, status: 'INVALID_ARGUMENT' }).type).toBe('invalid_request')
    expect(readStreamFailure({}).type).toBe('provider_unavailable')
  })
})
