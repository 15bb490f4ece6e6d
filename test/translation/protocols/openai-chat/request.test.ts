import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { NO_QUIRKS } from '../../../../src/config/quirks.ts'
import { moveNamesIntoText } from '../../../../src/language/message.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import { createPreset } from '../../../../src/resources/presets.ts'
import type { ChatRequest } from '../../../../src/translation/dialects/chat/schema.ts'
import { chat } from '../../../../src/translation/dialects/chat.ts'
import { buildRequest } from '../../../../src/translation/protocols/openai-chat/request.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
  await createPreset(gateway, getOperator(gateway), 'p', { system_prompt: null, config: {} })
})

const { origin, id } = buildTextCall()
const callOf = (body: object) =>
  chat.toCall(
    gateway,
    getOperator(gateway),
    { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }], ...body } as ChatRequest,
    {
      id,
      origin,
      session_id: null,
      betas: [],
    },
  )

/** Returns what a provider receives for a chat request with this body. */
const sent = (body: object, provider: Parameters<typeof buildProvider>[0] = {}) =>
  buildRequest(callOf(body), buildEndpoint({ provider: buildProvider(provider) })).body

/** Returns the received fields without the model and the messages. */
function sentParameters(body: object, provider: Parameters<typeof buildProvider>[0] = {}) {
  const { model: _, messages: __, ...parameters } = sent(body, provider)
  return parameters
}

describe('buildRequest', () => {
  test('sends the provider’s model and the messages for a plain call, and nothing else', () => {
    expect(buildRequest(callOf({}), buildEndpoint())).toEqual({
      path: '/chat/completions',
      body: { model: 'up-small', messages: [{ role: 'user', content: 'Hi' }] },
    })
  })

  test('requests usage for a streamed call', () => {
    expect(sentParameters({ stream: true })).toEqual({
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(sentParameters({ stream: true, stream_options: { include_usage: false } })).toEqual({
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  test('sends every parameter of E9 unchanged', () => {
    const parameters = {
      temperature: 0,
      top_p: 0.5,
      top_k: 40,
      min_p: 0.1,
      top_a: 0.2,
      frequency_penalty: -2,
      presence_penalty: 2,
      repetition_penalty: 1.5,
      seed: -7,
      stop: ['a', 'b'],
      logit_bias: { '50256': -100 },
      logprobs: true,
      top_logprobs: 5,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'x', strict: true, schema: { type: 'object' } },
      },
      prediction: { type: 'content', content: 'x' },
      verbosity: 'low',
      modalities: ['text', 'audio'],
      audio: { voice: 'alloy', format: 'wav' },
      web_search_options: { search_context_size: 'low' },
      prompt_cache_key: 'k',
    }
    expect(sentParameters(parameters)).toEqual(parameters)
  })

  test('sends what is said of tools only with tools', () => {
    const said = { tool_choice: 'auto', parallel_tool_calls: false }
    expect(sentParameters(said)).toEqual({})
    const tools = [{ type: 'function', function: { name: 'f' } }]
    expect(sentParameters({ ...said, tools })).toEqual({ ...said, tools })
  })

  test('sends unknown parameters unchanged', () => {
    const unknown = {
      enable_thinking: true,
      chat_template_kwargs: { a: [1, null, { b: 'x' }] },
      n: 2,
      best_of: 3,
      Temperature: 9,
    }
    expect(sentParameters(unknown)).toEqual(unknown)
  })

  test('does not let an unknown parameter replace a known one', () => {
    const call = {
      ...callOf({ stream: false }),
      extra: { model: 'other', messages: [], max_tokens: 1_000_000 },
    }
    const { model, messages } = buildRequest(
      { ...call, params: { max_tokens: 5 } },
      buildEndpoint(),
    ).body
    expect([model, messages]).toEqual(['up-small', [{ role: 'user', content: 'Hi' }]])
    expect(
      buildRequest({ ...call, params: { max_tokens: 5 } }, buildEndpoint()).body.max_tokens,
    ).toBe(5)
  })

  test('sends no field that is meant for the gateway', () => {
    const ours = {
      provider: { order: ['local'], zdr: true, allow_fallbacks: false },
      models: ['acme/small', 'acme/other'],
      route: 'fallback',
      plugins: [{ id: 'web' }],
      session_id: 's-1',
      trace: { trace_id: 't', secret: 'x' },
      metadata: { a: 'b' },
      debug: { echo_upstream_body: true },
      transforms: [],
      usage: { include: true },
      preset: 'p',
      include_reasoning: false,
    }
    expect(sentParameters(ours)).toEqual({})
  })

  test('does not send parameters that are null or empty', () => {
    const empty = {
      temperature: null,
      stop: [],
      tools: [],
      logit_bias: null,
      response_format: null,
      reasoning: null,
      max_tokens: null,
      user: null,
    }
    expect(sentParameters(empty)).toEqual({})
  })
})

describe('the output bound', () => {
  test('has the provider’s name, whichever name the client used', () => {
    for (const given of [{ max_tokens: 5 }, { max_completion_tokens: 5 }]) {
      expect(sentParameters(given)).toEqual({ max_tokens: 5 })
      expect(
        sentParameters(given, { quirks: { ...NO_QUIRKS, output_bound: 'max_completion_tokens' } }),
      ).toEqual({
        max_completion_tokens: 5,
      })
    }
  })

  test('is that of the newer name if both are sent', () => {
    expect(sentParameters({ max_tokens: 5, max_completion_tokens: 6 })).toEqual({ max_tokens: 6 })
  })
})

describe('requested reasoning', () => {
  const effort = (body: object) => sentParameters(body)

  test('is an effort at most providers', () => {
    expect(effort({ reasoning: { effort: 'high' } })).toEqual({ reasoning_effort: 'high' })
    expect(effort({ reasoning_effort: 'low' })).toEqual({ reasoning_effort: 'low' })
    expect(effort({ reasoning: { enabled: true } })).toEqual({ reasoning_effort: 'medium' })
    expect(effort({ include_reasoning: true })).toEqual({ reasoning_effort: 'medium' })
    expect(effort({ reasoning: { enabled: false } })).toEqual({ reasoning_effort: 'none' })
  })

  test.each([
    [100, 'minimal'],
    [200, 'low'],
    [500, 'medium'],
    [800, 'high'],
    [950, 'xhigh'],
    [1_000, 'xhigh'],
  ])('of %d of 1000 tokens is the effort %s', (max_tokens, expected) => {
    expect(effort({ max_tokens: 1_000, reasoning: { max_tokens } })).toEqual({
      max_tokens: 1_000,
      reasoning_effort: expected,
    })
  })

  test('of tokens without an output bound is a medium effort', () => {
    expect(effort({ reasoning: { max_tokens: 9_000 } })).toEqual({ reasoning_effort: 'medium' })
  })

  test('is hidden by the gateway alone', () => {
    expect(effort({ reasoning: { exclude: true } })).toEqual({})
    expect(effort({ reasoning: { effort: 'low', exclude: true } })).toEqual({
      reasoning_effort: 'low',
    })
  })

  test('is the whole object for providers that accept it', () => {
    const reasoning = { effort: 'high', summary: 'auto' }
    expect(
      sentParameters({ reasoning }, { quirks: { ...NO_QUIRKS, reasoning: 'object' } }),
    ).toEqual({ reasoning })
    expect(
      sentParameters(
        { reasoning_effort: 'low' },
        { quirks: { ...NO_QUIRKS, reasoning: 'object' } },
      ),
    ).toEqual({
      reasoning: { effort: 'low' },
    })
  })
})

describe('messages', () => {
  const through = (...messages: object[]) => sent({ messages }).messages

  test('of every role are sent unchanged', () => {
    const messages = [
      { role: 'system', content: 'Be brief' },
      { role: 'developer', content: 'Be kind' },
      { role: 'user', content: 'Hi', name: 'ada' },
      { role: 'assistant', content: 'Hello' },
      { role: 'tool', content: '{"a":1}', tool_call_id: 'c1' },
    ]
    expect(through(...messages)).toEqual(messages)
  })

  test('of an assistant keep calls, refusal and reasoning; content beside calls is null', () => {
    const tool_calls = [
      {
        id: 'c1',
        type: 'function',
        function: { name: 'f', arguments: '{"n": 12345678901234567890}' },
      },
    ]
    const reasoning_details = [
      { type: 'reasoning.encrypted', data: 'AA', format: 'x', index: 0, signature: 's' },
    ]
    expect(
      through(
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, tool_calls, reasoning: 'hm', reasoning_details },
      ),
    ).toEqual([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: null, tool_calls, reasoning: 'hm', reasoning_details },
    ])
    expect(through({ role: 'assistant', content: null, refusal: 'No' })).toEqual([
      { role: 'assistant', content: null, refusal: 'No' },
    ])
  })

  test('E9 that end with an assistant message stay a prefill', () => {
    const messages = [
      { role: 'user', content: 'Count' },
      { role: 'assistant', content: 'One, ' },
    ]
    expect(through(...messages)).toEqual(messages)
  })

  test('keep unknown parts and fields', () => {
    const messages = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look', cache_control: { type: 'ephemeral' } },
          { type: 'image_url', image_url: { url: 'https://a.example/x.png', detail: 'low' } },
          { type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' } },
          {
            type: 'file',
            file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AA==' },
          },
          {
            type: 'video_url',
            video_url: { url: 'https://a.example/x.mp4', processing: 'static' },
          },
        ],
        weight: 0,
      },
    ]
    expect(through(...messages)).toEqual(messages)
  })

  test('of one plain text part are sent as a string', () => {
    expect(through({ role: 'user', content: [{ type: 'text', text: 'Hi' }] })).toEqual([
      { role: 'user', content: 'Hi' },
    ])
  })

  test('E9 have a name before the text if it has no field, but not in tool results', () => {
    const call = callOf({
      messages: [
        { role: 'user', name: 'ada', content: 'Hi' },
        {
          role: 'user',
          name: 'bob',
          content: [
            { type: 'image_url', image_url: { url: 'https://a.example/x.png' } },
            { type: 'text', text: 'Look' },
          ],
        },
        { role: 'tool', name: 'f', content: '{"a":1}', tool_call_id: 'c1' },
      ],
    })
    expect(
      buildRequest({ ...call, messages: moveNamesIntoText(call.messages) }, buildEndpoint()).body
        .messages,
    ).toEqual([
      { role: 'user', content: 'ada: Hi' },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'https://a.example/x.png' } },
          { type: 'text', text: 'bob: Look' },
        ],
      },
      { role: 'tool', content: '{"a":1}', tool_call_id: 'c1' },
    ])
    expect(buildRequest(call, buildEndpoint()).body.messages).toMatchObject([
      { name: 'ada', content: 'Hi' },
      {},
      { name: 'f' },
    ])
  })
})

describe('tools', () => {
  test('of functions and of unknown kinds are sent unchanged', () => {
    const tools = [
      {
        type: 'function',
        function: {
          name: 'f',
          description: 'd',
          parameters: { type: 'object', properties: {} },
          strict: true,
        },
        cache_control: { type: 'ephemeral' },
      },
      { type: 'function', function: { name: 'g' } },
      { type: 'browser_search', depth: 2 },
    ]
    expect(
      sentParameters({ tools, tool_choice: { type: 'function', function: { name: 'f' } } }),
    ).toEqual({
      tools,
      tool_choice: { type: 'function', function: { name: 'f' } },
    })
  })
})

describe('the end user', () => {
  test('is sent as a hash of the workspace and their name, never as their name', () => {
    const { user } = sentParameters({ user: 'ada@example.com' })
    const hash = new Bun.CryptoHasher('sha256')
      .update(`${gateway.memory.owner.workspace_id}:ada@example.com`)
      .digest('hex')
    expect(user).toBe(hash)
  })
})
