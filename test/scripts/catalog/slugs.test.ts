import { describe, expect, test } from 'bun:test'
import { createSlug, parseProviderName, SLUG, Slugs } from '../../../scripts/catalog/slugs.ts'

const slugs = new Slugs()
for (const slug of [
  'anthropic/claude-haiku-4.5',
  'amazon/nova-lite-v1',
  'deepseek/deepseek-v4.1-flash',
  'google/gemma-4-26b-a4b-it',
  'meta-llama/llama-3.3-70b-instruct',
  'meta-llama/llama-4-scout',
  'nvidia/nemotron-nano-9b-v2',
  'openai/gpt-oss-120b',
  'qwen/qwen3.8-27b',
  'z-ai/glm-4.6',
])
  slugs.add(slug)

const joined = (own: string, home?: string) => {
  const parts = parseProviderName(own, home)
  return parts && slugs.find(parts)
}

describe('a provider’s own name', () => {
  test.each([
    ['claude-haiku-4-5', 'anthropic', 'anthropic/claude-haiku-4.5'],
    ['claude-haiku-4-5-20251001', 'anthropic', 'anthropic/claude-haiku-4.5'],
    ['global.anthropic.claude-haiku-4-5-20251001-v1:0', undefined, 'anthropic/claude-haiku-4.5'],
    ['amazon.nova-lite-v1:0', undefined, 'amazon/nova-lite-v1'],
    ['meta.llama3-3-70b-instruct-v1:0', undefined, 'meta-llama/llama-3.3-70b-instruct'],
    ['meta.llama4-scout-17b-instruct-v1:0', undefined, 'meta-llama/llama-4-scout'],
    ['google.gemma-4-26b-a4b', undefined, 'google/gemma-4-26b-a4b-it'],
    ['nvidia/NVIDIA-Nemotron-Nano-9B-v2', undefined, 'nvidia/nemotron-nano-9b-v2'],
    ['llama-3.3-70b-versatile', undefined, 'meta-llama/llama-3.3-70b-instruct'],
    ['accounts/fireworks/models/deepseek-v4p1-flash', undefined, 'deepseek/deepseek-v4.1-flash'],
    ['@cf/openai/gpt-oss-120b', undefined, 'openai/gpt-oss-120b'],
    ['zai-org/GLM-4.6-FP8', undefined, 'z-ai/glm-4.6'],
    ['qwen-3.8-27b', undefined, 'qwen/qwen3.8-27b'],
    ['openai.gpt-oss-120b-1:0', undefined, 'openai/gpt-oss-120b'],
  ])('%s of %s is %s', (own, home, slug) => {
    expect(joined(own, home)).toBe(slug)
  })

  test.each([
    ['zai-org/GLM-4.6V', undefined],
    ['claude-haiku-4-6', 'anthropic'],
    ['deepseek-ai/DeepSeek-V4.1-Flash-Fast', undefined],
    ['Qwen/Qwen3.8-27B-Thinking', undefined],
    ['mistral/gpt-oss-120b', undefined],
  ])('%s of %s has no such slug: a similar name is another model', (own, home) => {
    expect(joined(own, home)).toBeUndefined()
  })

  test('contains the quantization', () => {
    expect(parseProviderName('zai-org/GLM-4.6-FP8', undefined)).toEqual({
      author: 'z-ai',
      name: 'glm-4.6-fp8',
      quantization: 'fp8',
    })
  })

  test('without an author has none, unless its family is known', () => {
    expect(parseProviderName('mystery-7b', undefined)).toBeUndefined()
    expect(parseProviderName('mixtral-8x7b', undefined)?.author).toBe('mistralai')
  })

  test('that matches no slug becomes one of its own', () => {
    expect(createSlug({ author: 'acme', name: 'big_model-1.5' })).toMatch(SLUG)
  })
})

test('slugs that normalize alike are found by their exact name only', () => {
  const alike = new Slugs()
  alike.add('acme/one-15')
  alike.add('acme/one-1.5')
  expect(alike.find({ author: 'acme', name: 'one-1-5' })).toBeUndefined()
  expect(alike.find({ author: 'acme', name: 'one-1.5' })).toBe('acme/one-1.5')
})
