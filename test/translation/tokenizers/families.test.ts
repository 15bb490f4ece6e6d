import { describe, expect, test } from 'bun:test'
import {
  getTokenizerFamily,
  type TokenizerFamily,
} from '../../../src/translation/tokenizers/families.ts'

const told = (model: string, upstreamModel = 'model') =>
  getTokenizerFamily({ model, upstreamModel })

describe('the family of a model', () => {
  test.each<[slug: string, family: TokenizerFamily]>([
    ['openai/gpt-4o-mini', 'openai'],
    ['openai/o3-mini', 'openai'],
    ['openai/chatgpt-4o-latest', 'openai'],
    ['openai/codex-mini', 'openai'],
    ['azure/gpt-5', 'openai'],
    ['anthropic/claude-opus-4.5', 'anthropic'],
    ['google/gemini-3-pro-preview', 'gemini'],
    ['google/gemma-3-27b-it', 'gemini'],
    ['meta-llama/llama-3.3-70b-instruct', 'llama'],
    ['nvidia/llama-3.1-nemotron-70b-instruct', 'llama'],
    ['deepseek/deepseek-r1-distill-llama-70b', 'llama'],
    ['deepseek/deepseek-r1-distill-qwen-32b', 'qwen'],
    ['deepseek/deepseek-chat-v3.1:free', 'deepseek'],
    ['qwen/qwq-32b', 'qwen'],
    ['mistralai/ministral-8b', 'mistral'],
    ['mistralai/mixtral-8x7b-instruct', 'mistral'],
    ['mistralai/codestral-2508', 'mistral'],
    ['cohere/command-a', 'cohere'],
    ['Anthropic/Claude-3', 'anthropic'],
    ['acme/small', 'unknown'],
    ['constructor/x', 'unknown'],
    ['', 'unknown'],
  ])('%s is %s', (slug, family) => {
    expect(told(slug)).toBe(family)
  })

  test('falls back to the provider’s model name', () => {
    expect(told('acme/small', 'gpt-4o-mini')).toBe('openai')
    expect(told('acme/small', 'us.anthropic.claude-sonnet-4-5-v1:0')).toBe('anthropic')
    expect(told('acme/small', 'meta-llama/Llama-3.1-8B')).toBe('llama')
    expect(told('google/gemini-2.5-pro', 'gpt-4o')).toBe('gemini')
  })
})
