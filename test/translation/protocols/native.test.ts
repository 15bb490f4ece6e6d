import { expect, test } from 'bun:test'
import { NO_QUIRKS, type Quirks } from '../../../src/config/quirks.ts'
import type { Block } from '../../../src/language/message.ts'
import { PROVIDERS } from '../../../src/resources/providers.data.ts'
import { anthropicMessages } from '../../../src/translation/protocols/anthropic-messages.ts'
import { bedrockConverse } from '../../../src/translation/protocols/bedrock-converse.ts'
import { cohereChat } from '../../../src/translation/protocols/cohere-chat.ts'
import { gemini } from '../../../src/translation/protocols/gemini.ts'
import {
  foreignContent,
  foreignTool,
  requireFunctionTool,
} from '../../../src/translation/protocols/native.ts'
import { openaiChat } from '../../../src/translation/protocols/openai-chat.ts'
import { openaiResponses } from '../../../src/translation/protocols/openai-responses.ts'
import type { Protocol } from '../../../src/translation/protocols/protocol.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../support/call.ts'

const TOO_LONG = 'x'.repeat(1000)

test.each([
  ['the name of its kind', { type: 'web_search' }, 'web_search'],
  ['no more of it than a name has', { type: TOO_LONG }, TOO_LONG.slice(0, 64)],
  ['no name where it has none', { type: { toString: 1 } }, 'it'],
  ['no name where it is nothing', null, 'it'],
])('refuses a foreign tool or block with %s', (_, value, kind) => {
  const refused = { type: 'invalid_request', metadata: { field: 'tools.3' } }
  expect(foreignTool(value, 3)).toMatchObject({
    ...refused,
    message: `tools.3: ${kind} is a tool that this model’s provider does not have`,
  })
  const block: Block = { type: 'other', dialect: 'chat', value }
  expect(foreignContent(block).message).toBe(
    `messages: ${kind} is content that this model’s provider does not take`,
  )
})

test('refuses content of a known kind by our name for it', () => {
  expect(foreignContent({ type: 'audio', data: '', format: 'wav' }).message).toContain(
    'messages: audio is content',
  )
})

test('accepts functions and no other tools', () => {
  const given = { type: 'function' as const, name: 'look' }
  expect(requireFunctionTool(given, 0)).toBe(given)
  expect(() =>
    requireFunctionTool({ type: 'other', dialect: 'chat', value: { type: 'custom' } }, 1),
  ).toThrow('tools.1: custom is a tool')
})

const CONTRACT = {
  structured_outputs: true,
  max_tool_calls: 3,
  x_search_filter: { from_date: '2026-01-01' },
  store: true,
}

test.each<[name: string, protocol: Protocol<'text'>, provider: string, kept: string[]]>([
  ['gemini', gemini, 'google', []],
  ['cohere-chat', cohereChat, 'cohere', []],
  ['bedrock-converse', bedrockConverse, 'bedrock', []],
  ['anthropic-messages', anthropicMessages, 'anthropic', []],
  ['openai-responses', openaiResponses, 'local', ['max_tool_calls']],
  ['openai-chat', openaiChat, 'openai', ['store']],
  ['openai-chat', openaiChat, 'groq', ['store']],
  ['openai-chat', openaiChat, 'xai', ['max_tool_calls', 'x_search_filter', 'store']],
  ['openai-chat', openaiChat, 'local', ['max_tool_calls', 'store']],
  ['openai-chat', openaiChat, 'openrouter', Object.keys(CONTRACT)],
])('of the chat API, %s sends what it has', (name, protocol, slug, kept) => {
  const row = (PROVIDERS as Record<string, { quirks?: Partial<Quirks> }>)[slug]
  const provider = buildProvider({ slug, quirks: { ...NO_QUIRKS, ...row?.quirks } })
  const extra = { ...CONTRACT, own_field: 1 }
  const call = buildTextCall({ extra, params: { max_tokens: 10 } })
  const { body } = protocol.buildRequest(call, buildEndpoint({ provider }))
  const isStateless = name === 'openai-responses'
  expect(body).toMatchObject({ own_field: 1 })
  expect(
    Object.keys(CONTRACT).filter(field => field in body && !(isStateless && field === 'store')),
  ).toEqual(kept)
  expect(call.extra).toEqual(extra)
})

/** What only OpenAI's own APIs and servers like them take: others refuse a call for any of it. */
const OPENAIS = {
  ...{ n: 2, best_of: 2, echo: true, suffix: 'x' },
  ...{ safety_identifier: 'x', prompt_cache_retention: '24h' },
}

test.each<[name: string, protocol: Protocol<'text'>, kept: string[]]>([
  ['gemini', gemini, []],
  ['cohere-chat', cohereChat, []],
  ['bedrock-converse', bedrockConverse, []],
  ['anthropic-messages', anthropicMessages, []],
  ['openai-responses', openaiResponses, ['safety_identifier', 'prompt_cache_retention']],
  ['openai-chat', openaiChat, Object.keys(OPENAIS)],
])('of OpenAI’s parameters, %s sends what it has', (_, protocol, kept) => {
  const { body } = protocol.buildRequest(buildTextCall({ extra: OPENAIS }), buildEndpoint())
  expect(Object.keys(OPENAIS).filter(field => field in body)).toEqual(kept)
})

test('an object of vLLM’s is sent, though its name is that of a capability', () => {
  const extra = { structured_outputs: { regex: 'a+' } }
  const { body } = openaiChat.buildRequest(buildTextCall({ extra }), buildEndpoint())
  expect(body).toMatchObject(extra)
})
