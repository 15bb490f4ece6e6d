import { describe, expect, test } from 'bun:test'
import { openParameters, type Served } from '../../../src/core/catalog/parameters.ts'
import { ALL_PARAMETERS } from '../../../src/core/language/parameters.ts'

const parametersOf = openParameters()
const served = (more: Partial<Served> = {}): Served => ({
  provider: 'together',
  protocol: 'openai-chat',
  dropped: [],
  reasoning: null,
  isText: true,
  ...more,
})
const lacking = (more: Partial<Served>) =>
  ALL_PARAMETERS.filter(name => !parametersOf(served(more)).has(name))

describe('what an endpoint supports', () => {
  test('is everything where nothing is known against it', () => {
    expect(lacking({})).toEqual([])
  })

  test('is everything of a provider whose name every object has a member for', () => {
    expect(lacking({ provider: 'constructor', reasoning: true })).toEqual([])
  })

  test('is no reasoning where the model is known not to, and no tools where no text comes out', () => {
    expect(lacking({ reasoning: false })).toEqual([
      'include_reasoning',
      'reasoning',
      'reasoning_effort',
    ])
    expect(lacking({ isText: false })).toEqual(
      expect.arrayContaining(['tools', 'tool_choice', 'reasoning']),
    )
  })

  test('is no sampling where a provider refuses it of models that reason', () => {
    expect(lacking({ provider: 'openai', reasoning: true })).toContain('temperature')
    expect(lacking({ provider: 'openai', reasoning: false })).not.toContain('temperature')
    expect(lacking({ provider: 'openrouter', reasoning: true })).toEqual([])
  })

  test('is not what a way of speaking has no word for', () => {
    expect(lacking({ provider: 'anthropic', protocol: 'anthropic-messages' })).toContain('seed')
    expect(lacking({ provider: 'google', protocol: 'gemini' })).toContain('logit_bias')
  })

  test('is not what its quirks drop', () => {
    expect(lacking({ dropped: ['seed', 'user'] })).toEqual(['seed'])
  })

  test('is always an output bound', () => {
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

  test('is one set for endpoints alike', () => {
    expect(parametersOf(served())).toBe(parametersOf(served()))
  })
})
