import { describe, expect, test } from 'bun:test'
import type { TextCall } from '../../../../src/language/call.ts'
import type { Message } from '../../../../src/language/message.ts'
import type { Params } from '../../../../src/language/params.ts'
import type { Tool, ToolChoice } from '../../../../src/language/tool.ts'
import { buildRequest } from '../../../../src/translation/protocols/openai-responses.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'

/** Returns what this model at this provider is sent. */
const sentTo = (slug: string, upstreamModel: string, call: Partial<TextCall> = {}) =>
  buildRequest(
    buildTextCall(call),
    buildEndpoint({ provider: buildProvider({ slug }), upstreamModel }),
  ).body

const sent = (call: Partial<TextCall> = {}) => sentTo('openai', 'gpt-5', call)
const asked = (params: Params, model = 'gpt-5', slug = 'openai') => sentTo(slug, model, { params })
const inputOf = (...messages: Message[]) => sent({ messages }).input
const toolsOf = (...tools: Tool[]) => sent({ tools }).tools

const user = (text: string): Message => ({ role: 'user', blocks: [{ type: 'text', text }] })
const message = (role: string, ...content: object[]) => ({ type: 'message', role, content })
const inputText = (text: string) => ({ type: 'input_text', text })
const weather: Tool = {
  type: 'function',
  name: 'weather',
  description: 'Tells it',
  parameters: { type: 'object', properties: {} },
}

describe('the request', () => {
  test('goes to /responses with the whole conversation, which is not stored there', () => {
    expect(
      buildRequest(
        buildTextCall(),
        buildEndpoint({ provider: buildProvider({ slug: 'openai' }), upstreamModel: 'gpt-5' }),
      ),
    ).toEqual({
      path: '/responses',
      body: {
        model: 'gpt-5',
        input: [message('user', inputText('Hi'))],
        store: false,
        include: ['reasoning.encrypted_content'],
      },
    })
  })

  test('requests a stream', () => {
    expect(sent({ stream: true })).toMatchObject({ stream: true })
    expect(sent()).not.toHaveProperty('stream')
  })

  test('has unknown parameters, but none that replace known ones or store state', () => {
    const extra = {
      truncation: 'auto',
      max_tool_calls: 3,
      model: 'evil',
      store: true,
      metadata: { a: 'b' },
      previous_response_id: 'resp_1',
      background: true,
    }
    const body = sent({ extra })
    expect(body).toMatchObject({
      truncation: 'auto',
      max_tool_calls: 3,
      model: 'gpt-5',
      store: false,
    })
    for (const name of ['metadata', 'previous_response_id', 'background'])
      expect(body).not.toHaveProperty(name)
  })

  test('has no unknown parameters of another dialect, and extends the client’s include', () => {
    expect(sent({ dialect: 'messages', extra: { container: 'x' } })).not.toHaveProperty('container')
    const extra = { include: ['web_search_call.action.sources'] }
    expect(sent({ dialect: 'responses', extra }).include).toEqual([
      'web_search_call.action.sources',
      'reasoning.encrypted_content',
    ])
    expect(sent({ extra }).include).toEqual(['reasoning.encrypted_content'])
  })

  test('does not change the call', () => {
    const call = buildTextCall({
      messages: [user('Hi')],
      tools: [weather],
      params: { response_format: { type: 'json_object' }, max_tokens: 5 },
    })
    const before = structuredClone(call)
    buildRequest(call, buildEndpoint())
    expect(call).toEqual(before)
  })
})

describe('the input', () => {
  test('has the messages in order, instructions in their positions', () => {
    const system: Message = { role: 'system', blocks: [{ type: 'text', text: 'Be brief' }] }
    expect(inputOf(system, user('Hi'), { ...system, role: 'developer' })).toEqual([
      message('system', inputText('Be brief')),
      message('user', inputText('Hi')),
      message('developer', inputText('Be brief')),
    ])
  })

  test('trap 6: has system instead of developer messages for servers without that role', () => {
    const messages: Message[] = [
      { role: 'developer', blocks: [{ type: 'text', text: 'Be brief' }] },
    ]
    expect(sentTo('vllm', 'qwen3', { messages }).input).toMatchObject([{ role: 'system' }])
    expect(sentTo('xai', 'grok-4', { messages }).input).toMatchObject([{ role: 'system' }])
  })

  test('has images, audio and documents', () => {
    const turn: Message = {
      role: 'user',
      blocks: [
        { type: 'image', url: 'https://a.test/a.png' },
        { type: 'image', url: 'data:image/png;base64,AAAA', detail: 'high' },
        { type: 'audio', data: 'AAAA', format: 'wav' },
        { type: 'file', file: { file_data: 'https://a.test/a.pdf', filename: 'a.pdf' } },
        {
          type: 'file',
          file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' },
        },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA' } },
        { type: 'file', file: { file_data: 'data:text/csv;base64,AAAA' } },
        { type: 'file', file: { file_data: 'data:text/plain;base64,SGVsbG8=', filename: 'a.txt' } },
        { type: 'file', file: { file_id: 'file_1' } },
        { type: 'video', url: 'https://a.test/a.mp4' },
      ],
    }
    expect(inputOf(turn)).toEqual([
      message(
        'user',
        { type: 'input_image', image_url: 'https://a.test/a.png', detail: 'auto' },
        { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'high' },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
        { type: 'input_file', file_url: 'https://a.test/a.pdf' },
        { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
        {
          type: 'input_file',
          filename: 'document.pdf',
          file_data: 'data:application/pdf;base64,AAAA',
        },
        { type: 'input_file', filename: 'document', file_data: 'data:text/csv;base64,AAAA' },
        inputText('a.txt\n\nHello'),
        { type: 'input_file', file_id: 'file_1' },
        { type: 'input_video', video_url: 'https://a.test/a.mp4' },
      ),
    ])
  })

  test('has the model’s reasoning, content and calls in order', () => {
    const turn: Message = {
      role: 'assistant',
      extra: { phase: 'commentary' },
      blocks: [
        {
          type: 'reasoning',
          text: 'Hm',
          details: [
            {
              type: 'reasoning.encrypted',
              data: 'gAAA',
              id: 'rs_1',
              format: 'openai-responses-v1',
            },
          ],
        },
        { type: 'text', text: 'Let me see.' },
        { type: 'text', text: '' },
        { type: 'refusal', text: 'Not that.' },
        { type: 'tool-call', id: 'call_1', name: 'weather', input: '{"id":12345678901234567890}' },
        { type: 'tool-call', id: 'call_2', name: 'weather', input: '' },
      ],
    }
    const result = (id: string): Message => ({
      role: 'tool',
      tool_call_id: id,
      blocks: [{ type: 'text', text: `of ${id}` }],
    })
    expect(inputOf(turn, result('call_2'), result('call_1'))).toEqual([
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAA' },
      {
        type: 'message',
        role: 'assistant',
        phase: 'commentary',
        content: [
          { type: 'output_text', text: 'Let me see.' },
          { type: 'refusal', refusal: 'Not that.' },
        ],
      },
      {
        type: 'function_call',
        call_id: 'call_1',
        name: 'weather',
        arguments: '{"id":12345678901234567890}',
      },
      { type: 'function_call', call_id: 'call_2', name: 'weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_2', output: 'of call_2' },
      { type: 'function_call_output', call_id: 'call_1', output: 'of call_1' },
    ])
  })

  const called: Message = {
    role: 'assistant',
    blocks: [{ type: 'tool-call', id: 'call_1', name: 'weather', input: '{}' }],
  }

  test('trap 17: keeps images in results', () => {
    const blocks: Message['blocks'] = [
      { type: 'text', text: 'Here' },
      { type: 'image', url: 'data:image/png;base64,AAAA' },
    ]
    expect(inputOf(called, { role: 'tool', tool_call_id: 'call_1', blocks })).toMatchObject([
      {},
      {
        type: 'function_call_output',
        call_id: 'call_1',
        output: [
          inputText('Here'),
          { type: 'input_image', image_url: 'data:image/png;base64,AAAA' },
        ],
      },
    ])
  })

  test('trap 2: adds missing results, and makes a result without a call the user’s text', () => {
    expect(inputOf(called, user('And?'))).toEqual([
      { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'The tool gave no result.' },
      message('user', inputText('And?')),
    ])
    expect(
      inputOf({ role: 'tool', tool_call_id: 'gone', blocks: [{ type: 'text', text: 'Sun' }] }),
    ).toEqual([message('user', inputText('Sun'))])
  })

  test('trap 21: shortens long ids, for the call and its result alike', () => {
    const id = `call_${'x'.repeat(60)}|fc_${'y'.repeat(20)}`
    const messages: Message[] = [
      { role: 'assistant', blocks: [{ type: 'tool-call', id, name: 'weather', input: '{}' }] },
      { role: 'tool', tool_call_id: id, blocks: [] },
    ]
    const [call, result] = sent({ messages }).input as { call_id: string }[]
    expect(call?.call_id).toHaveLength(64)
    expect(result?.call_id).toBe(call?.call_id ?? '')
  })

  test('trap 9: leaves out a message with nothing but reasoning', () => {
    const details = [
      { type: 'reasoning.encrypted', data: 'gAAA', id: 'rs_1', format: 'openai-responses-v1' },
    ]
    expect(
      inputOf(
        { role: 'assistant', blocks: [{ type: 'reasoning', text: 'Hm', details }] },
        user('Hi'),
      ),
    ).toEqual([message('user', inputText('Hi'))])
  })

  test('keeps items and content of its own dialect, and refuses another’s by name', () => {
    const search = { type: 'web_search_call', id: 'ws_1', status: 'completed' }
    const part = { type: 'input_text', text: 'Hi', unknown: true }
    const own = [search, part].map(
      value => ({ type: 'other', dialect: 'responses', value }) as const,
    )
    expect(inputOf({ role: 'user', blocks: [{ type: 'text', text: 'a' }, ...own] })).toEqual([
      message('user', inputText('a')),
      search,
      message('user', part),
    ])
    expect(() =>
      inputOf({
        role: 'user',
        blocks: [{ type: 'other', dialect: 'messages', value: { type: 'search_result' } }],
      }),
    ).toThrow('search_result is content that this model')
    const said: Message['blocks'] = [
      { type: 'other', dialect: 'messages', value: { type: 'server_tool_use' } },
      { type: 'text', text: 'Found it' },
    ]
    expect(inputOf({ role: 'assistant', blocks: said })).toEqual([
      message('assistant', { type: 'output_text', text: 'Found it' }),
    ])
  })
})

describe('tools', () => {
  test('are flat, and strict only if the client says so', () => {
    const strict = { ...weather, strict: true } as const
    const undecided = { ...weather, strict: null } as const
    expect(toolsOf(weather, strict, undecided)).toEqual([
      {
        type: 'function',
        name: 'weather',
        description: 'Tells it',
        parameters: { type: 'object', properties: {} },
        strict: false,
      },
      expect.objectContaining({ strict: true }),
      expect.objectContaining({ strict: false }),
    ])
    expect(sent({ dialect: 'responses', tools: [weather] }).tools).toEqual([
      expect.not.objectContaining({ strict: false }),
    ])
  })

  test('trap 42: without parameters have those of an empty object', () => {
    expect(toolsOf({ type: 'function', name: 'now' })).toMatchObject([
      { parameters: { type: 'object', properties: {} } },
    ])
  })

  test('trap 22: have allowed names, in choice and history alike', () => {
    const tools: Tool[] = [{ type: 'function', name: 'files.read' }]
    const messages: Message[] = [
      {
        role: 'assistant',
        blocks: [{ type: 'tool-call', id: 'c', name: 'files.read', input: '{}' }],
      },
    ]
    const body = sent({
      tools,
      messages,
      params: { tool_choice: { type: 'function', function: { name: 'files.read' } } },
    })
    expect(body).toMatchObject({
      tools: [{ name: 'files_read' }],
      tool_choice: { type: 'function', name: 'files_read' },
      input: [{ name: 'files_read' }, {}],
    })
  })

  test('trap 35: of this dialect are sent unchanged, another’s are refused by name', () => {
    const mcp = { type: 'mcp', server_label: 'x' }
    expect(
      sent({ dialect: 'responses', tools: [{ type: 'other', dialect: 'responses', value: mcp }] })
        .tools,
    ).toEqual([mcp])
    const bash: Tool = { type: 'other', dialect: 'messages', value: { type: 'bash_20250124' } }
    expect(() => toolsOf(weather, bash)).toThrow('tools.1: bash_20250124 is a tool')
  })

  test('include the provider’s own search for a parameter or the chat API’s shorthand', () => {
    const user_location = { type: 'approximate', approximate: { country: 'FR' } }
    expect(
      asked({ web_search_options: { search_context_size: 'low', user_location } }).tools,
    ).toEqual([
      {
        type: 'web_search',
        search_context_size: 'low',
        user_location: { type: 'approximate', country: 'FR' },
      },
    ])
    const shorthand: Tool = {
      type: 'other',
      dialect: 'chat',
      value: { type: 'web_search', engine: 'native', allowed_domains: ['a.test'] },
    }
    expect(toolsOf(shorthand)).toEqual([
      { type: 'web_search', filters: { allowed_domains: ['a.test'] } },
    ])
    expect(sent({ tools: [shorthand], params: { web_search_options: {} } }).tools).toHaveLength(1)
  })

  test('include the provider’s own for images in the answer', () => {
    expect(asked({ modalities: ['image', 'text'] }).tools).toEqual([{ type: 'image_generation' }])
  })

  test.each([
    ['auto', 'auto'],
    ['required', 'required'],
    [
      { type: 'function', function: { name: 'weather' } },
      { type: 'function', name: 'weather' },
    ],
    [
      {
        type: 'allowed_tools',
        allowed_tools: {
          mode: 'auto',
          tools: [{ type: 'function', function: { name: 'weather' } }],
        },
      },
      { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'weather' }] },
    ],
    [{ type: 'mcp' }, { type: 'mcp' }],
  ] as [ToolChoice, unknown][])('choice %j is %j', (tool_choice, expected) => {
    expect(
      sent({ tools: [weather], params: { tool_choice, parallel_tool_calls: false } }),
    ).toMatchObject({
      tool_choice: expected,
      parallel_tool_calls: false,
    })
  })

  test('without any, no choice is sent', () => {
    const body = asked({ tool_choice: 'auto', parallel_tool_calls: true })
    for (const name of ['tools', 'tool_choice', 'parallel_tool_calls'])
      expect(body).not.toHaveProperty(name)
  })
})

describe('the text options', () => {
  test('trap 44: have a flat schema', () => {
    const json_schema = {
      name: 'city',
      description: 'One',
      strict: true,
      schema: { type: 'object', $defs: {} },
    }
    expect(
      asked({ response_format: { type: 'json_schema', json_schema }, verbosity: 'low' }).text,
    ).toEqual({
      format: {
        type: 'json_schema',
        name: 'city',
        description: 'One',
        schema: { type: 'object', $defs: {} },
        strict: true,
      },
      verbosity: 'low',
    })
    const lax = {
      response_format: { type: 'json_schema', json_schema: { name: 'city', strict: null } },
    }
    expect(asked(lax).text).toEqual({
      format: { type: 'json_schema', name: 'city', schema: { type: 'object' } },
    })
  })

  test('trap 45: json_object adds an instruction if the input does not mention JSON', () => {
    const params: Params = { response_format: { type: 'json_object' } }
    expect(sent({ params }).input).toEqual([
      message('developer', inputText('Answer in JSON.')),
      message('user', inputText('Hi')),
    ])
    expect(sent({ params, messages: [user('As json please')] }).input).toHaveLength(1)
  })
})

describe('parameters', () => {
  test('have this API’s names; those that it does not have are left out', () => {
    const body = asked({
      max_tokens: 100,
      prompt_cache_key: 'k',
      service_tier: 'flex',
      seed: 1,
      stop: ['x'],
      logit_bias: { 1: 2 },
      prediction: {},
      top_k: 5,
      frequency_penalty: 1,
      cache_control: { type: 'ephemeral' },
    })
    expect(body).toEqual({
      model: 'gpt-5',
      input: [message('user', inputText('Hi'))],
      store: false,
      include: ['reasoning.encrypted_content'],
      max_output_tokens: 100,
      prompt_cache_key: 'k',
      service_tier: 'flex',
    })
  })

  test('the end user has the provider’s field', () => {
    expect(sent({ user: 'u' })).toMatchObject({ safety_identifier: 'u' })
    expect(sentTo('azure', 'gpt-5', { user: 'u' })).toMatchObject({ user: 'u' })
    expect(sentTo('local', 'qwen3', { user: 'u' })).toMatchObject({ user: 'u' })
  })

  test('an output bound below OpenAI’s minimum is raised to it', () => {
    expect(asked({ max_tokens: 1 })).toMatchObject({ max_output_tokens: 16 })
    expect(asked({ max_tokens: 1 }, 'qwen3', 'local')).toMatchObject({ max_output_tokens: 1 })
  })

  test.each([
    ['gpt-5', 'openai', {}, false],
    ['my-deployment', 'azure', {}, false],
    ['o3-mini', 'openai', {}, false],
    ['gpt-4o', 'openai', {}, true],
    ['ft:gpt-4o-mini:acme', 'openai', {}, true],
    ['gpt-5-chat-latest', 'openai', {}, true],
    ['gpt-5.2', 'openai', {}, false],
    ['gpt-5.2', 'openai', { reasoning: { effort: 'none' } }, true],
    ['gpt-6', 'openai', { reasoning: { effort: 'none' } }, false],
    ['grok-4', 'xai', {}, true],
    ['qwen3', 'local', {}, true],
    ['openai/gpt-5', 'local', {}, false],
  ])('trap 49: %s at %s with %j accepts a temperature: %p', (model, slug, params, takes) => {
    const body = asked({ ...params, temperature: 0.5, top_p: 0.9 }, model, slug)
    expect(['temperature', 'top_p'].map(name => name in body)).toEqual([takes, takes])
  })

  test.each([
    ['gpt-5', { effort: 'high' }, { effort: 'high', summary: 'auto' }],
    ['gpt-5', { effort: 'xhigh' }, { effort: 'high', summary: 'auto' }],
    ['gpt-5', { effort: 'none' }, { effort: 'minimal' }],
    ['gpt-5', { enabled: false }, { effort: 'minimal' }],
    ['gpt-5', { enabled: true }, { effort: 'medium', summary: 'auto' }],
    ['gpt-5', { effort: 'low', exclude: true }, { effort: 'low' }],
    ['gpt-5', { effort: 'low', summary: 'detailed' }, { effort: 'low', summary: 'detailed' }],
    ['gpt-5', { max_tokens: 1000 }, { effort: 'medium', summary: 'auto' }],
    ['gpt-5.1', { effort: 'minimal' }, { effort: 'low', summary: 'auto' }],
    ['gpt-5.1', { effort: 'none' }, { effort: 'none' }],
    ['gpt-5.4', { effort: 'max' }, { effort: 'xhigh', summary: 'auto' }],
    ['o3', { effort: 'minimal' }, { effort: 'low', summary: 'auto' }],
    ['gpt-5-pro', { effort: 'low' }, { effort: 'medium', summary: 'auto' }],
    ['gpt-99', { effort: 'max' }, { effort: 'max', summary: 'auto' }],
    ['gpt-4o', { effort: 'high' }, undefined],
    ['gpt-5', undefined, undefined],
  ])('%s with %j requested gets %j', (model, reasoning, expected) => {
    expect(asked(reasoning ? { reasoning } : {}, model).reasoning).toEqual(expected)
  })

  test('other servers get reasoning in their own way', () => {
    expect(asked({ reasoning: { effort: 'high' } }, 'grok-4', 'xai')).not.toHaveProperty(
      'reasoning',
    )
    expect(asked({ reasoning: { effort: 'medium' } }, 'grok-3-mini', 'xai').reasoning).toEqual({
      effort: 'high',
      summary: 'auto',
    })
    expect(asked({ reasoning: { effort: 'high' } }, 'gpt-oss-20b', 'vllm').reasoning).toEqual({
      effort: 'high',
    })
  })

  test.each([
    ['gpt-5', 'openai', ['reasoning.encrypted_content']],
    ['o3', 'azure', ['reasoning.encrypted_content']],
    ['grok-4', 'xai', ['reasoning.encrypted_content']],
    ['gpt-4o', 'openai', undefined],
    ['qwen3', 'vllm', undefined],
  ])('%s at %s includes its reasoning to send back: %j', (model, slug, include) => {
    expect(asked({}, model, slug).include).toEqual(include)
  })

  test('trap 51: logprobs are requested by include, if the model has them', () => {
    expect(asked({ logprobs: true, top_logprobs: 3 }, 'gpt-4o')).toMatchObject({
      top_logprobs: 3,
      include: ['message.output_text.logprobs'],
    })
    expect(asked({ logprobs: true }, 'gpt-4o')).toMatchObject({
      top_logprobs: 0,
      include: ['message.output_text.logprobs'],
    })
    expect(asked({ logprobs: false, top_logprobs: 0 }, 'gpt-4o')).not.toHaveProperty('top_logprobs')
    expect(asked({ logprobs: true, top_logprobs: 3 }, 'gpt-5')).not.toHaveProperty('top_logprobs')
  })

  test('verbosity is sent only to models that know it', () => {
    expect(asked({ verbosity: 'low' }, 'gpt-4o')).not.toHaveProperty('text')
  })
})
