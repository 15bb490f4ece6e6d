import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { Block, Message } from '../../../../src/language/message.ts'
import { buildRequest } from '../../../../src/translation/protocols/cohere-chat.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'

const endpoint = buildEndpoint({ upstreamModel: 'command-a-reasoning-08-2025' })

/** Returns the body that Cohere receives for a call with these fields. */
const sent = (more: Partial<TextCall> = {}, at = endpoint) =>
  buildRequest(buildTextCall(more), at).body

/** Returns the body without the model and the messages. */
function sentParameters(more: Partial<TextCall>, at = endpoint) {
  const { model: _, messages: __, ...parameters } = sent(more, at)
  return parameters
}

const said = (role: Message['role'], ...blocks: Block[]): Message => ({ role, blocks })
const text = (words: string): Block => ({ type: 'text', text: words })
const fn = (name: string) => ({
  type: 'function' as const,
  name,
  description: 'It does',
  parameters: { type: 'object', properties: {} },
})
const shownFn = (name: string) => ({
  type: 'function',
  function: { name, description: 'It does', parameters: { type: 'object', properties: {} } },
})

const weather: Block = {
  type: 'tool-call',
  id: 'call_1',
  name: 'weather',
  input: '{"city":"Rome"}',
}
const result = (...blocks: Block[]): Message => ({ role: 'tool', tool_call_id: 'call_1', blocks })
const toolMessage = (...content: unknown[]) => ({ role: 'tool', tool_call_id: 'call_1', content })

describe('request', () => {
  test('a plain call has only the model and the messages', () => {
    expect(buildRequest(buildTextCall(), endpoint)).toEqual({
      path: '/chat',
      body: { model: 'command-a-reasoning-08-2025', messages: [{ role: 'user', content: 'Hi' }] },
    })
  })

  test('a streamed call has stream', () => {
    expect(sentParameters({ stream: true })).toEqual({ stream: true })
  })

  test('sends parameters under Cohere’s names, and omits those without an equivalent', () => {
    const params = {
      temperature: 0.4,
      top_p: 0.5,
      top_k: 40,
      frequency_penalty: 0.1,
      presence_penalty: 0.2,
      seed: 7,
      max_tokens: 9,
    }
    const unknown = {
      min_p: 0.1,
      top_a: 0.1,
      repetition_penalty: 1.1,
      logit_bias: { 5: 1 },
      top_logprobs: 3,
      parallel_tool_calls: false,
    }
    expect(
      sentParameters({
        params: { ...params, ...unknown, stop: ['a', 'b'], logprobs: true },
        user: 'u',
      }),
    ).toEqual({
      temperature: 0.4,
      p: 0.5,
      k: 40,
      frequency_penalty: 0.1,
      presence_penalty: 0.2,
      seed: 7,
      max_tokens: 9,
      stop_sequences: ['a', 'b'],
      logprobs: true,
    })
  })

  test('trap 49: clamps values to Cohere’s ranges', () => {
    const params = {
      temperature: 2,
      top_p: 1,
      top_k: 1000,
      frequency_penalty: -2,
      presence_penalty: 2,
      seed: -1,
    }
    const expected = { temperature: 1, p: 0.99, k: 500, frequency_penalty: 0, presence_penalty: 1 }
    expect(sentParameters({ params })).toEqual(expected)
    expect(sentParameters({ params: { top_p: 0 } })).toEqual({ p: 0.01 })
    expect(sentParameters({ params: { stop: ['1', '2', '3', '4', '5', '6'] } })).toEqual({
      stop_sequences: ['1', '2', '3', '4', '5'],
    })
  })

  test('passes on unknown parameters, which cannot overwrite known ones', () => {
    const extra = {
      safety_mode: 'STRICT',
      citation_options: { mode: 'FAST' },
      documents: [{ data: { text: 'x' } }],
      model: 'other',
    }
    expect(sent({ extra })).toMatchObject({ ...extra, model: 'command-a-reasoning-08-2025' })
  })

  test('leaves the call unchanged', () => {
    const call = buildTextCall({
      messages: [said('assistant', weather), result(text('{}'))],
      tools: [fn('weather')],
      extra: { documents: [] },
    })
    const before = structuredClone(call)
    buildRequest(call, endpoint)
    expect(call).toEqual(before)
  })
})

describe('thinking', () => {
  test('trap 54: sends a budget, an effort as a share of the bound, none as disabled', () => {
    const wish = (reasoning: object, max_tokens?: number) =>
      sentParameters({ params: { reasoning, ...(max_tokens ? { max_tokens } : {}) } }).thinking
    expect(wish({ max_tokens: 2000 })).toEqual({ type: 'enabled', token_budget: 2000 })
    expect(wish({ effort: 'low' }, 10_000)).toEqual({ type: 'enabled', token_budget: 2000 })
    expect(wish({ effort: 'medium' })).toEqual({ type: 'enabled', token_budget: 16_384 })
    expect(wish({ effort: 'none' })).toEqual({ type: 'disabled' })
    expect(wish({ enabled: false })).toEqual({ type: 'disabled' })
    expect(wish({ exclude: true })).toBeUndefined()
  })

  test.each([
    'command-r-08-2024',
    'command-a-03-2025',
    'command-a-vision-07-2025',
    'c4ai-aya-expanse-32b',
    'command-r7b-12-2024',
  ])('omits thinking for %s, which does not think', upstreamModel => {
    expect(
      sentParameters(
        { params: { reasoning: { effort: 'high' } } },
        buildEndpoint({ upstreamModel }),
      ),
    ).toEqual({})
  })

  test('sends thinking to an unknown model', () => {
    expect(
      sentParameters(
        { params: { reasoning: { max_tokens: 1 } } },
        buildEndpoint({ upstreamModel: 'command-b-01-2027' }),
      ),
    ).toHaveProperty('thinking')
  })
})

describe('messages', () => {
  test('trap 5: puts system and developer messages first, in order', () => {
    const messages = [
      said('user', text('Hi')),
      said('system', text('Be kind')),
      said('developer', text('Be brief')),
    ]
    expect(sent({ messages }).messages).toEqual([
      { role: 'system', content: 'Be kind\n\nBe brief' },
      { role: 'user', content: 'Hi' },
    ])
  })

  test('sends images in parts, text alone as a string', () => {
    const picture: Block = { type: 'image', url: 'https://a.example/b.png', detail: 'low' }
    expect(sent({ messages: [said('user', text('What is it?'), picture)] }).messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is it?' },
          { type: 'image_url', image_url: { url: 'https://a.example/b.png', detail: 'low' } },
        ],
      },
    ])
  })

  test('sends text beside a tool call as its plan, and an object result as a document', () => {
    const messages = [
      said('user', text('Rome?')),
      said('assistant', text('I look it up'), weather),
      result(text('{"sky":"blue"}')),
    ]
    expect(sent({ messages }).messages).toEqual([
      { role: 'user', content: 'Rome?' },
      {
        role: 'assistant',
        tool_plan: 'I look it up',
        tool_calls: [
          {
            id: 'call_1',
            type: 'function',
            function: { name: 'weather', arguments: '{"city":"Rome"}' },
          },
        ],
      },
      toolMessage({ type: 'document', document: { data: { sky: 'blue' } } }),
    ])
  })

  test('trap 26: keeps large integers exact in results and arguments', () => {
    const input = '{"id":123456789012345678}'
    const messages = [said('assistant', { ...weather, input }), result(text(input))]
    const body = JSON.stringify(sent({ messages }))
    expect(body).toContain('"data":{"id":123456789012345678}')
    expect(body).toContain(JSON.stringify(input))
  })

  test('sends other results as text, and notes an empty one', () => {
    const answered = (...blocks: Block[]) =>
      (sent({ messages: [said('assistant', weather), result(...blocks)] }).messages as unknown[])[1]
    expect(answered(text('[1]'))).toEqual(toolMessage({ type: 'text', text: '[1]' }))
    expect(answered()).toEqual(toolMessage({ type: 'text', text: 'The tool gave no text.' }))
  })

  test('trap 2: adds a missing result', () => {
    expect(
      sent({ messages: [said('assistant', weather), said('user', text('Well?'))] }).messages,
    ).toEqual([
      expect.objectContaining({ role: 'assistant' }),
      toolMessage({ type: 'text', text: 'The tool gave no result.' }),
      { role: 'user', content: 'Well?' },
    ])
  })

  test('trap 16: moves the image of a tool to the user', () => {
    const picture: Block = { type: 'image', url: 'data:image/png;base64,AA==' }
    expect(
      sent({ messages: [said('assistant', weather), result(text('Here'), picture)] }).messages,
    ).toEqual([
      expect.objectContaining({ role: 'assistant' }),
      toolMessage({ type: 'text', text: 'Here' }),
      {
        role: 'user',
        content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }],
      },
    ])
  })

  test('trap 23: sends empty arguments as an empty object', () => {
    const [message] = sent({ messages: [said('assistant', { ...weather, input: '' })] })
      .messages as {
      tool_calls: unknown
    }[]
    expect(message?.tool_calls).toEqual([
      { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } },
    ])
  })

  test('trap 9: omits thinking, and a message of nothing else', () => {
    const thought: Block = { type: 'reasoning', text: 'Hm', details: null }
    expect(
      sent({
        messages: [
          said('user', text('Hi')),
          said('assistant', thought),
          said('assistant', thought, text('Ho')),
        ],
      }).messages,
    ).toEqual([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Ho' },
    ])
  })

  test('trap 18: sends a text file as a document, and refuses others', () => {
    const file = (file_data: string): Message =>
      said('user', text('Sum it up'), { type: 'file', file: { filename: 'a.txt', file_data } })
    const body = sent({
      messages: [file('data:text/plain;base64,SGVsbG8=')],
      extra: { documents: [{ data: { text: 'given' } }] },
    })
    expect(body.documents).toEqual([
      { data: { text: 'given' } },
      { data: { title: 'a.txt', text: 'Hello' } },
    ])
    expect(body.messages).toEqual([{ role: 'user', content: 'Sum it up' }])
    expect(() => sent({ messages: [file('data:application/pdf;base64,SGVsbG8=')] })).toThrow(
      GatewayError,
    )
    expect(() => sent({ messages: [file('https://a.example/a.txt')] })).toThrow(GatewayError)
  })

  test('refuses audio by name', () => {
    expect(() =>
      sent({ messages: [said('user', { type: 'audio', data: '', format: 'wav' })] }),
    ).toThrow(/audio/)
  })
})

describe('tools', () => {
  const tools = [fn('weather'), fn('time')]

  test('renders functions and the choice', () => {
    const both = [shownFn('weather'), shownFn('time')]
    expect(sentParameters({ tools })).toEqual({ tools: both })
    expect(sentParameters({ tools, params: { tool_choice: 'auto' } })).toEqual({ tools: both })
    expect(sentParameters({ tools, params: { tool_choice: 'none' } })).toEqual({
      tools: both,
      tool_choice: 'NONE',
    })
    expect(sentParameters({ tools, params: { tool_choice: 'required' } })).toEqual({
      tools: both,
      tool_choice: 'REQUIRED',
    })
  })

  test('offers only a forced function', () => {
    const choice = (name: string) => ({
      tools,
      params: { tool_choice: { type: 'function' as const, function: { name } } },
    })
    expect(sentParameters(choice('time'))).toEqual({
      tools: [shownFn('time')],
      tool_choice: 'REQUIRED',
    })
    expect(() => sent(choice('missing'))).toThrow(/tool_choice/)
  })

  test('trap 22: replaces invalid names in tools, choice and history', () => {
    const body = sent({
      tools: [fn('mcp.files/read')],
      messages: [said('assistant', { ...weather, name: 'mcp.files/read' })],
      params: { tool_choice: { type: 'function', function: { name: 'mcp.files/read' } } },
    })
    expect(JSON.stringify(body)).not.toContain('mcp.files/read')
    expect(body.tools).toEqual([shownFn('mcp_files_read')])
    expect(body.messages).toContainEqual(
      expect.objectContaining({
        tool_calls: [
          {
            id: 'call_1',
            type: 'function',
            function: { name: 'mcp_files_read', arguments: '{"city":"Rome"}' },
          },
        ],
      }),
    )
  })

  test('trap 42: sends an empty object schema for a function without parameters', () => {
    expect(sentParameters({ tools: [{ type: 'function', name: 'now' }] }).tools).toEqual([
      {
        type: 'function',
        function: { name: 'now', parameters: { type: 'object', properties: {} } },
      },
    ])
  })

  test('are strict if all of them are', () => {
    const strict = { ...fn('weather'), strict: true }
    expect(sentParameters({ tools: [strict] })).toHaveProperty('strict_tools', true)
    expect(sentParameters({ tools: [strict, fn('time')] })).not.toHaveProperty('strict_tools')
  })

  test('trap 35: refuses another kind of tool by name', () => {
    expect(() =>
      sent({ tools: [{ type: 'other', dialect: 'chat', value: { type: 'web_search' } }] }),
    ).toThrow(/tools\.0: web_search/)
  })
})

describe('response format', () => {
  const schema = { type: 'object', properties: { a: { type: 'string' } } }
  const wish = { type: 'json_schema' as const, json_schema: { name: 'it', schema } }

  test('sends a schema', () => {
    expect(sent({ params: { response_format: wish } })).toMatchObject({
      response_format: { type: 'json_object', json_schema: schema },
      messages: [
        { role: 'system', content: 'Answer in JSON.' },
        { role: 'user', content: 'Hi' },
      ],
    })
  })

  test('trap 45: mentions JSON if the conversation does not', () => {
    const params = { response_format: { type: 'json_object' as const } }
    expect(sent({ params }).messages).toContainEqual({ role: 'system', content: 'Answer in JSON.' })
    expect(sent({ params, messages: [said('user', text('Some JSON please'))] }).messages).toEqual([
      { role: 'user', content: 'Some JSON please' },
    ])
    expect(sent({ params: { response_format: { type: 'text' } } })).not.toHaveProperty(
      'response_format',
    )
  })

  test('becomes an instruction beside tools or documents', () => {
    for (const more of [{ tools: [fn('weather')] }, { extra: { documents: [] } }]) {
      const body = sent({ params: { response_format: wish }, ...more })
      expect(body).not.toHaveProperty('response_format')
      expect(JSON.stringify(body.messages)).toContain(
        JSON.stringify(JSON.stringify(schema)).slice(1, -1),
      )
    }
  })
})
