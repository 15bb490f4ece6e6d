import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { GatewayError } from '../../../../src/base/errors.ts'
import { findSchemaIssue, matchesSchema } from '../../../../src/base/schema.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import { updateWorkspace } from '../../../../src/resources/workspaces.ts'
import { ChatRequest, CompletionRequest } from '../../../../src/translation/dialects/chat/schema.ts'
import { chat } from '../../../../src/translation/dialects/chat.ts'
import { buildTextCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const messages = [{ role: 'user', content: 'Hi' }]
const { origin, id } = buildTextCall()
const callOf = (body: object, session_id: string | null = null) =>
  chat.toCall(gateway, getOperator(gateway), { messages, ...body } as ChatRequest, {
    id,
    origin,
    session_id,
    betas: [],
  })

const fieldOf = (body: object): unknown => {
  try {
    callOf(body)
    return undefined
  } catch (thrown) {
    return GatewayError.from(thrown).metadata.field
  }
}

describe('models', () => {
  test('are the requested one, or the default', () => {
    expect(callOf({ model: 'acme/small' }).models).toEqual(['acme/small'])
    expect(callOf({}).models).toEqual(['sandbox/echo'])
    expect(callOf({ models: [] }).models).toEqual(['sandbox/echo'])
  })

  test('are the requested one and its fallbacks, each once', () => {
    expect(callOf({ model: 'a/a', models: ['b/b', 'a/a', 'c/c', 'b/b'] }).models).toEqual([
      'a/a',
      'b/b',
      'c/c',
    ])
    expect(callOf({ models: ['b/b', 'a/a'] }).models).toEqual(['b/b', 'a/a'])
  })

  test('are limited in number', () => {
    expect(fieldOf({ models: Array.from({ length: 100 }, (_, i) => `a/${i}`) })).toBe('models')
  })
})

describe('messages', () => {
  test('E9 are required unless there is a prompt, and excluded if there is one', () => {
    expect(fieldOf({ prompt: 'x' })).toBe('messages')
    expect(fieldOf({ messages: undefined })).toBe('messages')
    expect(callOf({ messages: undefined, prompt: 'Say' }).messages).toEqual([
      { role: 'user', blocks: [{ type: 'text', text: 'Say' }] },
    ])
  })

  test('E9 with an unknown role are refused, and so is an empty list', () => {
    expect(
      findSchemaIssue(ChatRequest, { messages: [{ role: 'robot', content: 'x' }] })?.path,
    ).toMatch(/^messages\.0/)
    expect(findSchemaIssue(ChatRequest, { messages: [] })).toMatchObject({
      path: 'messages',
      found: 'an empty array',
    })
    expect(findSchemaIssue(ChatRequest, { messages: [{ role: 'user' }] })?.path).toBe(
      'messages.0.content',
    )
    expect(findSchemaIssue(ChatRequest, { messages: [{ role: 'tool', content: 'x' }] })?.path).toBe(
      'messages.0.tool_call_id',
    )
    expect(
      findSchemaIssue(ChatRequest, {
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 5 } }] }],
      })?.path,
    ).toBe('messages.0.content.0.image_url.url')
  })

  test('E9 of every role are accepted, with or without a name', () => {
    const all = [
      { role: 'system', content: 'x' },
      { role: 'developer', content: [{ type: 'text', text: 'x' }] },
      { role: 'user', content: 'x', name: 'ada' },
      { role: 'assistant', content: null },
      {
        role: 'assistant',
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '' } }],
      },
      { role: 'tool', content: 'x', tool_call_id: 'a' },
    ]
    expect(findSchemaIssue(ChatRequest, { messages: all })).toBeUndefined()
  })

  test('trap 8: content of null next to a tool call is not a text', () => {
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
    const { messages: turns } = callOf({
      messages: [{ role: 'assistant', content: null, tool_calls: [call] }],
    })
    expect(turns).toEqual([
      { role: 'assistant', blocks: [{ type: 'tool-call', id: 'a', name: 'f', input: '{}' }] },
    ])
  })

  test('a text completion needs a prompt', () => {
    expect(matchesSchema(CompletionRequest, { prompt: 'x' })).toBe(true)
    expect(matchesSchema(CompletionRequest, { prompt: '' })).toBe(false)
    expect(matchesSchema(CompletionRequest, { messages })).toBe(false)
  })
})

describe('parameters', () => {
  test('a single stop sequence becomes a list of one', () => {
    expect(callOf({ stop: 'END' }).params.stop).toEqual(['END'])
    expect(callOf({ stop: '' }).params.stop).toBeUndefined()
  })

  test('a top_k of 0 means no limit', () => {
    expect(callOf({ top_k: 0 }).params).toEqual({})
  })

  test('a temperature and a seed of 0 are kept', () => {
    expect(callOf({ temperature: 0, seed: 0, logprobs: false }).params).toEqual({
      temperature: 0,
      seed: 0,
      logprobs: false,
    })
  })

  test('the service tier "fast" becomes "priority"', () => {
    expect(callOf({ service_tier: 'fast' }).params.service_tier).toBe('priority')
    expect(callOf({ service_tier: 'flex' }).params.service_tier).toBe('flex')
  })

  test('reasoning with both an effort and a token budget is refused', () => {
    expect(fieldOf({ reasoning: { effort: 'low', max_tokens: 5 } })).toBe('reasoning')
  })

  test('the reasoning object overrules its flat aliases', () => {
    expect(
      callOf({ reasoning: { effort: 'high' }, reasoning_effort: 'low' }).params.reasoning,
    ).toEqual({ effort: 'high' })
    expect(
      callOf({ reasoning: { exclude: false }, include_reasoning: false }).params.reasoning,
    ).toEqual({ exclude: false })
    expect(callOf({ include_reasoning: false }).params.reasoning).toEqual({ exclude: true })
  })
})

describe('provider preferences', () => {
  test('name providers by our slug, the public slug or the display name, in any case', () => {
    const provider = {
      order: ['OpenAI', 'google-vertex'],
      only: ['amazon-bedrock', 'Google AI Studio'],
      ignore: ['GROQ', 'nobody'],
    }
    expect(callOf({ provider }).routing).toEqual({
      order: ['openai', 'vertex', 'vertex-anthropic'],
      only: ['bedrock', 'google'],
      ignore: ['groq'],
    })
  })

  test('with unknown providers only are empty, and an empty order is no order', () => {
    expect(callOf({ provider: { only: ['nobody'], order: ['nobody'] } }).routing).toEqual({
      only: [],
      order: [],
    })
    expect(callOf({ provider: { order: [] } }).routing).toEqual({})
  })

  test('limit the number of provider names', () => {
    const ignoring = (many: number) => ({
      messages,
      provider: { ignore: Array.from({ length: many }, (_, i) => `p${i}`) },
    })
    expect([
      matchesSchema(ChatRequest, ignoring(256)),
      matchesSchema(ChatRequest, ignoring(257)),
    ]).toEqual([true, false])
  })

  test('accept prices as numbers or as decimal strings', () => {
    expect(
      callOf({ provider: { max_price: { prompt: '0.15', completion: 1 } } }).routing.max_price,
    ).toEqual({
      prompt: 0.15,
      completion: 1,
    })
  })

  test('accept a region or a quantization after any name of a provider', () => {
    const order = [
      'google-vertex/europe',
      'Google AI Studio/us',
      'deepinfra/fp8',
      'nobody/us',
      'nobody',
    ]
    expect(callOf({ provider: { order } }).routing.order).toEqual([
      'vertex/europe',
      'vertex-anthropic/europe',
      'google/us',
      'deepinfra/fp8',
    ])
  })

  test('accept sort as a string or an object, and route as the legacy name of partition', () => {
    const sorted = (provider: object, more: object = {}) => callOf({ provider, ...more }).routing
    expect(sorted({ sort: 'price' })).toEqual({ sort: 'price' })
    expect(sorted({ sort: { by: 'latency', partition: 'none' } })).toEqual({
      sort: 'latency',
      partition: 'none',
    })
    expect(sorted({ sort: { by: 'exacto' } })).toEqual({ sort: 'exacto' })
    expect(sorted({ sort: { by: null, partition: null } })).toEqual({})
    expect(callOf({ route: 'fallback' }).routing).toEqual({ partition: 'model' })
    expect(callOf({ route: 'sort' }).routing).toEqual({ partition: 'none' })
    expect(sorted({ sort: { partition: 'model' } }, { route: 'sort' })).toEqual({
      partition: 'model',
    })
  })

  test('accept throughput and latency for the median or for named percentiles', () => {
    expect(
      callOf({ provider: { preferred_min_throughput: 50, preferred_max_latency: 1.5 } }).routing,
    ).toEqual({
      preferred_min_throughput: { p50: 50 },
      preferred_max_latency: { p50: 1.5 },
    })
    expect(callOf({ provider: { preferred_max_latency: { p50: null, p90: 3 } } }).routing).toEqual({
      preferred_max_latency: { p90: 3 },
    })
    expect(callOf({ provider: { enforce_distillable_text: true } }).routing).toEqual({
      enforce_distillable_text: true,
    })
  })

  test('include the default sort of the workspace', async () => {
    const usual = async (default_provider_sort: 'latency' | 'exacto' | null) => {
      await updateWorkspace(gateway, getOperator(gateway), gateway.memory.owner.workspace_id, {
        default_provider_sort,
      })
      return callOf({}).routing
    }
    expect(await usual('latency')).toEqual({ defaultSort: 'latency' })
    expect(await usual('exacto')).toEqual({ defaultSort: 'exacto' })
    expect(await usual(null)).toEqual({})
  })

  test('with an empty list of allowed providers are refused', () => {
    expect(fieldOf({ provider: { only: [] } })).toBe('provider.only')
  })

  test('that are false or null are left out', () => {
    expect(
      callOf({
        provider: { zdr: false, require_parameters: false, order: null, allow_fallbacks: null },
      }).routing,
    ).toEqual({})
    expect(callOf({ provider: null }).routing).toEqual({})
  })
})

describe('session and user', () => {
  test('E9 the session id of the body overrules that of the header', () => {
    expect(callOf({ session_id: 'body' }, 'header').session_id).toBe('body')
    expect(callOf({}, 'header').session_id).toBe('header')
    expect(callOf({}).session_id).toBeNull()
  })

  test('E9 session ids and users longer than 256 characters are refused', () => {
    for (const field of ['session_id', 'user']) {
      expect(findSchemaIssue(ChatRequest, { messages, [field]: 'x'.repeat(256) })).toBeUndefined()
      expect(findSchemaIssue(ChatRequest, { messages, [field]: 'x'.repeat(257) })?.path).toBe(field)
    }
  })

  test('the same user name in two workspaces gives two hashes', () => {
    const actor = getOperator(gateway)
    const userIn = (workspace_id: string) =>
      chat.toCall(gateway, { ...actor, workspace_id }, { messages, user: 'ada' } as ChatRequest, {
        id,
        origin,
        session_id: null,
        betas: [],
      }).user
    expect(userIn('w1')).not.toBe(userIn('w2'))
    expect(userIn('w1')).toBe(userIn('w1'))
    expect(userIn('w1')).toMatch(/^[0-9a-f]{64}$/)
  })
})

describe('a body in the shape of another API', () => {
  test.each<[field: string, body: object, told: string]>([
    ['system', { system: 'Be kind' }, 'expected a message with the role system; /messages'],
    ['stop_sequences', { stop_sequences: ['END'] }, 'expected stop; /messages'],
    ['tool_choice', { tool_choice: { type: 'tool', name: 'f' } }, '/messages takes this form'],
    ['tool_choice', { tool_choice: { type: 'any' } }, '/messages takes this form'],
    ['max_output_tokens', { max_output_tokens: 5 }, 'expected max_tokens; /responses'],
    ['instructions', { instructions: 'Be kind' }, '/responses takes this field'],
    ['contents', { contents: [] }, 'expected messages: bodies in the shape of Gemini'],
    ['generationConfig', { generationConfig: {} }, 'Gemini’s own shape is not taken'],
  ])('is refused by its %s', (field, body, told) => {
    expect(fieldOf(body)).toBe(field)
    expect(() => callOf(body)).toThrow(told)
  })

  test.each<[thinking: unknown, reasoning: object]>([
    [{ type: 'enabled' }, { enabled: true }],
    [
      { type: 'enabled', budget_tokens: 2_000 },
      { enabled: true, max_tokens: 2_000 },
    ],
    [{ type: 'disabled' }, { enabled: false }],
  ])('may have %j, which providers have on this API', (thinking, reasoning) => {
    const { params, extra } = callOf({ thinking })
    expect([params.reasoning, extra]).toEqual([reasoning, {}])
  })

  test('keeps a thinking of no known form', () => {
    const { params, extra } = callOf({ thinking: 'hard' })
    expect([params.reasoning, extra]).toEqual([undefined, { thinking: 'hard' }])
  })
})
