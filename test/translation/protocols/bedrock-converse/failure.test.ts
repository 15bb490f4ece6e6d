import { describe, expect, test } from 'bun:test'
import {
  readFailure,
  readStreamFailure,
} from '../../../../src/translation/protocols/bedrock-converse/failure.ts'

const named = (errortype: string) => (name: string) =>
  name === 'x-amzn-errortype' ? errortype : null

describe('failure', () => {
  test.each([
    [429, 'ThrottlingException', 'rate_limit_exceeded'],
    [400, 'ServiceQuotaExceededException', 'rate_limit_exceeded'],
    [429, 'ModelNotReadyException', 'provider_unavailable'],
    [408, 'ModelTimeoutException', 'timeout'],
    [424, 'ModelErrorException', 'provider_unavailable'],
    [500, 'InternalServerException', 'provider_unavailable'],
    [503, 'ServiceUnavailableException', 'provider_unavailable'],
    [400, 'ValidationException', 'invalid_request'],
    [403, 'AccessDeniedException', 'provider_unavailable'],
    [404, 'ResourceNotFoundException', 'provider_unavailable'],
    [403, 'UnrecognizedClientException', 'provider_unavailable'],
  ] as const)('trap 99: %d %s is %s, from its header or its body', (status, name, type) => {
    const expected = { type, metadata: { provider_code: name } }
    expect(
      readFailure(
        status,
        { message: 'No' },
        named(`${name}:http://internal.amazon.com/coral/com.amazon.bedrock/`),
      ),
    ).toMatchObject(expected)
    expect(
      readFailure(status, { __type: `com.amazonaws.bedrockruntime#${name}`, Message: 'No' }),
    ).toMatchObject(expected)
  })

  test.each([
    [429, 'rate_limit_exceeded', 'ThrottlingException'],
    [400, 'invalid_request', 'ValidationException'],
    [424, 'provider_unavailable', 'ModelErrorException'],
    [408, 'timeout', 'ModelTimeoutException'],
  ] as const)('a %d without a name is %s', (status, type, code) => {
    expect(readFailure(status, { message: 'No' })).toMatchObject({
      type,
      metadata: { provider_code: code },
    })
  })

  test.each([
    'Input is too long for requested model.',
    'prompt is too long: 200251 tokens > 200000 maximum',
    'Input Tokens Exceeded: Number of input tokens exceeds maximum length. ' +
      'Please update the input to try again.',
    'Input tokens exceed the configured limit',
  ])('%p exceeds the context', message => {
    expect(readFailure(400, { message }, named('ValidationException')).type).toBe(
      'context_length_exceeded',
    )
  })

  test.each([
    'The maximum tokens you requested exceeds the model limit of 4096. ' +
      'Try again with a maximum tokens value that is lower than 4096.',
    'max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens',
  ])('%p exceeds the output limit', message => {
    expect(readFailure(400, { message }).type).toBe('max_tokens_exceeded')
  })

  test('trap 99: a tokens-per-minute limit is not the context length', () => {
    const message = 'Too many tokens, please wait before trying again.'
    expect(readFailure(429, { message }, named('ThrottlingException')).type).toBe(
      'rate_limit_exceeded',
    )
    expect(readStreamFailure('throttlingException', { message }).type).toBe('rate_limit_exceeded')
  })

  test.each([
    'The provided model identifier is invalid.',
    'Invocation of model ID anthropic.claude-opus-4-1 with on-demand throughput ' +
      'isn’t supported. Retry your request with an inference profile.',
  ])('blames the gateway for a wrong model name: %p', message => {
    expect(readFailure(400, { message }).type).toBe('provider_unavailable')
  })

  test('a filtered output is a content policy violation', () => {
    expect(readFailure(400, { message: 'Output blocked by content filtering policy' }).type).toBe(
      'content_policy_violation',
    )
  })

  test('does not pass on Bedrock’s sentence', () => {
    const error = readFailure(400, { message: 'arn:aws:bedrock:us-east-1:123456789012 said no' })
    expect(JSON.stringify([error.message, error.metadata])).not.toContain('arn:')
  })

  test.each([[null], ['text'], [[]], [42], [{ message: {}, __type: 7 }]])(
    'trap 100: treats a body %p as any other failure',
    body => {
      expect(readFailure(500, body).type).toBe('provider_unavailable')
      expect(readFailure(418, body).type).toBe('provider_unavailable')
    },
  )

  test.each([
    ['throttlingException', 'rate_limit_exceeded'],
    ['modelStreamErrorException', 'provider_unavailable'],
    ['internalServerException', 'provider_unavailable'],
    ['validationException', 'invalid_request'],
    ['serviceUnavailableException', 'provider_unavailable'],
    ['modelTimeoutException', 'timeout'],
    ['anExceptionOfTomorrow', 'provider_unavailable'],
  ] as const)('trap 77: %s in a stream is %s', (event, type) => {
    expect(readStreamFailure(event, { message: 'No' }).type).toBe(type)
    expect(readStreamFailure(event, undefined).type).toBe(type)
  })
})
