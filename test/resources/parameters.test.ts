import { describe, expect, test } from 'bun:test'
import { ALL_PARAMETERS } from '../../src/language/parameters.ts'
import { createParameterLookup, type EndpointTraits } from '../../src/resources/parameters.ts'

const parametersOf = createParameterLookup()
const served = (more: Partial<EndpointTraits> = {}): EndpointTraits => ({
  provider: 'together',
  protocol: 'openai-chat',
  dropped: [],
  reasoning: null,
  isText: true,
  ...more,
})
const lacking = (more: Partial<EndpointTraits>) =>
  ALL_PARAMETERS.filter(name => !parametersOf(served(more)).has(name))

describe('the parameters of an endpoint', () => {
  test('are all where nothing is known against them', () => {
    expect(lacking({})).toEqual([])
  })

  test('are all for a provider that is named like a member of every object', () => {
    expect(lacking({ provider: 'constructor', reasoning: true })).toEqual([])
  })

  test('lack reasoning for models that do not reason, and tools without text output', () => {
    expect(lacking({ reasoning: false })).toEqual([
      'include_reasoning',
      'reasoning',
      'reasoning_effort',
    ])
    expect(lacking({ isText: false })).toEqual(
      expect.arrayContaining(['tools', 'tool_choice', 'reasoning']),
    )
  })

  test('lack sampling where a provider refuses it for models that reason', () => {
    expect(lacking({ provider: 'openai', reasoning: true })).toContain('temperature')
    expect(lacking({ provider: 'openai', reasoning: false })).not.toContain('temperature')
    expect(lacking({ provider: 'openrouter', reasoning: true })).toEqual([])
  })

  test('lack what the protocol does not have', () => {
    expect(lacking({ provider: 'anthropic', protocol: 'anthropic-messages' })).toContain('seed')
    expect(lacking({ provider: 'google', protocol: 'gemini' })).toContain('logit_bias')
  })

  test('lack what its quirks drop', () => {
    expect(lacking({ dropped: ['seed', 'user'] })).toEqual(['seed'])
  })

  test('always include an output bound', () => {
    for (const protocol of [
      'openai-chat',
      'openai-responses',
      'anthropic-messages',
      'gemini',
      'bedrock-converse',
      'cohere-chat',
    ])
      expect(parametersOf(served({ protocol })).has('max_tokens')).toBe(true)
  })

  test('are one set for equal endpoints', () => {
    expect(parametersOf(served())).toBe(parametersOf(served()))
  })
})
