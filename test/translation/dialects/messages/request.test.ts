import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { findSchemaIssue, matchesSchema } from '../../../../src/base/schema.ts'
import { hashUser } from '../../../../src/limits/call-budgets.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import { MessagesRequest } from '../../../../src/translation/dialects/messages/schema.ts'
import { messages } from '../../../../src/translation/dialects/messages.ts'
import { buildTextCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const { origin, id } = buildTextCall()
const hi = { role: 'user', content: 'Hi' }
const bodyOf = (more: object) => ({ model: 'acme/small', messages: [hi], ...more })
const callOf = (more: object) =>
  messages.toCall(gateway, getOperator(gateway), bodyOf(more) as MessagesRequest, {
    id,
    origin,
    session_id: null,
    betas: ['beta-1'],
  })
const turnsOf = (...messages: object[]) => callOf({ messages }).messages
const blocksOf = (...content: object[]) => turnsOf({ role: 'user', content })[0]?.blocks
const saidBlocksOf = (...content: object[]) => turnsOf({ role: 'assistant', content })[0]?.blocks
const paramsOf = (more: object) => callOf(more).params
const whereWrong = (more: object) => findSchemaIssue(MessagesRequest, bodyOf(more))?.path

const mark = { cache_control: { type: 'ephemeral' as const, ttl: '1h' as const } }

describe('a conversation', () => {
  test('of plain texts becomes messages of one text each', () => {
    expect(callOf({})).toMatchObject({
      kind: 'text',
      dialect: 'messages',
      id,
      stream: false,
      betas: ['beta-1'],
    })
    expect(turnsOf(hi, { role: 'assistant', content: 'Hello' })).toEqual([
      { role: 'user', blocks: [{ type: 'text', text: 'Hi' }] },
      { role: 'assistant', blocks: [{ type: 'text', text: 'Hello' }] },
    ])
  })

  test('begins with the system prompt, as one text or as blocks, and keeps cache markers', () => {
    expect(callOf({ system: 'Be kind' }).messages[0]).toEqual({
      role: 'system',
      blocks: [{ type: 'text', text: 'Be kind' }],
    })
    expect(
      callOf({ system: [{ type: 'text', text: 'Be kind', ...mark }] }).messages[0]?.blocks,
    ).toEqual([{ type: 'text', text: 'Be kind', ...mark }])
    expect(callOf({ system: [] }).messages).toHaveLength(1)
  })

  test('trap 5: may have a system message in the middle', () => {
    expect(
      turnsOf(hi, { role: 'system', content: 'Now be brief' }, hi).map(turn => turn.role),
    ).toEqual(['user', 'system', 'user'])
  })

  test('keeps unknown fields of a message', () => {
    expect(turnsOf({ ...hi, clear_at: 'x' })[0]?.extra).toEqual({ clear_at: 'x' })
  })
})

describe('content', () => {
  test('a picture becomes its URL or a data URL, unless it is stored at the provider', () => {
    const kept = { type: 'image', source: { type: 'file', file_id: 'file_1' } }
    expect(
      blocksOf(
        { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
        {
          type: 'image',
          source: { type: 'base64', media_type: 'image/png', data: 'AAAA' },
          ...mark,
        },
        kept,
      ),
    ).toEqual([
      { type: 'image', url: 'https://example.com/a.png' },
      { type: 'image', url: 'data:image/png;base64,AAAA', ...mark },
      { type: 'other', dialect: 'messages', value: kept },
    ])
  })

  test('a document becomes a file: whole, by URL, by id, or as text', () => {
    const document = (source: object, more: object = {}) => ({ type: 'document', source, ...more })
    expect(
      blocksOf(
        document(
          { type: 'base64', media_type: 'application/pdf', data: 'AAAA' },
          { title: 'a.pdf', context: 'About', citations: { enabled: true }, ...mark },
        ),
        document(
          { type: 'url', url: 'https://example.com/a.pdf' },
          { title: null, context: null, citations: null },
        ),
        document({ type: 'file', file_id: 'file_1' }, { citations: { enabled: false } }),
        document({ type: 'text', media_type: 'text/plain', data: 'Grüße' }),
        document({ type: 'content', content: 'Hi' }),
      ),
    ).toEqual([
      {
        type: 'file',
        file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' },
        citations: true,
        ...mark,
        extra: { context: 'About' },
      },
      { type: 'file', file: { file_data: 'https://example.com/a.pdf' } },
      { type: 'file', file: { file_id: 'file_1' } },
      { type: 'file', file: { file_data: `data:text/plain;base64,${btoa('GrÃ¼Ã\u009fe')}` } },
      { type: 'file', file: { file_data: `data:text/plain;base64,${btoa('Hi')}` } },
    ])
  })

  test('a document made of blocks and content of Anthropic’s own types stay unchanged', () => {
    const kinds = [
      { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'Hi' }] } },
      {
        type: 'search_result',
        source: 'https://example.com',
        title: 'A',
        content: [{ type: 'text', text: 'a' }],
      },
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } },
      { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
      { type: 'compaction', content: 'So far' },
      { type: 'container_upload', file_id: 'file_1' },
      { type: 'mcp_tool_use', id: 'mcptoolu_1', name: 'echo', server_name: 'echo', input: {} },
    ]
    expect(blocksOf(...kinds)).toEqual(
      kinds.map(value => ({ type: 'other', dialect: 'messages', value })),
    )
  })

  test('the sources of a text are sent back with it, except those without proof', () => {
    const proven = {
      type: 'web_search_result_location',
      encrypted_index: 'abc',
      url: 'https://a.example',
      title: 'A',
      cited_text: 'a',
    }
    const shown = { ...proven, encrypted_index: '' }
    const { encrypted_index: _, ...bare } = proven
    expect(
      saidBlocksOf(
        { type: 'text', text: 'A', citations: [proven, shown, bare] },
        { type: 'text', text: 'B', citations: [shown] },
        { type: 'text', text: 'C', citations: null },
      ),
    ).toEqual([
      { type: 'text', text: 'A', extra: { citations: [proven] } },
      { type: 'text', text: 'B' },
      { type: 'text', text: 'C' },
    ])
  })
})

describe('tools', () => {
  test.each([
    [{ type: 'tool_addition' }, 'tool'],
    [{ type: 'tool_addition', tool: null }, 'tool'],
    [{ type: 'tool_addition', tool: { type: 'tool_definition', definition: 5 } }, 'definition'],
    [{ type: 'tool_addition', tool: { type: 'tool_definition', definition: {} } }, 'definition'],
    [{ type: 'tool_removal', tool: { type: 'tool_reference', name: 'lok' } }, 'tool.name'],
    [{ type: 'tool_removal', tool: { type: 'tool_reference', name: -1 } }, 'tool.name'],
    [
      {
        type: 'tool_removal',
        tool: { type: 'tool_definition', definition: { name: 'look', input_schema: {} } },
      },
      'a tool_definition',
    ],
  ])('that a system message changes are tools of the call: %j', (change, named) => {
    const tools = [{ name: 'look', input_schema: {} }]
    const ask = () => callOf({ tools, messages: [hi, { role: 'system', content: [change] }] })
    expect(ask).toThrow('messages.1.content.0.tool')
    expect(ask).toThrow(named)
  })

  test('that system messages define are as few as those of a call', () => {
    const define = (_: unknown, i: number) => ({
      type: 'tool_addition',
      tool: { type: 'tool_definition', definition: { name: `t${i}`, input_schema: {} } },
    })
    const content = Array.from({ length: 2_049 }, define)
    expect(() => callOf({ messages: [hi, { role: 'system', content }] })).toThrow('2048 tools')
    const kept = callOf({ messages: [hi, { role: 'system', content: content.slice(1) }] })
    expect(kept.messages[1]?.blocks).toHaveLength(2_048)
  })

  test('of providers that a system message defines are among the call’s, as rules are for those', () => {
    const search = { type: 'web_search_20260318', name: 'web_search', max_uses: 3 }
    const own = { name: 'look', input_schema: { type: 'object' } }
    const add = (definition: object) => ({
      type: 'tool_addition',
      tool: { type: 'tool_definition', definition },
    })
    const call = callOf({
      messages: [hi, { role: 'system', content: [add(search), add(own)] }],
    })
    expect(call.tools).toEqual([
      { type: 'other', dialect: 'messages', value: { ...search, defer_loading: true } },
    ])
    const reference = { type: 'tool_reference', name: 'web_search' }
    expect(call.messages[1]?.blocks).toMatchObject([
      { type: 'other', value: { type: 'tool_addition', tool: reference } },
      { type: 'other', value: add(own) },
    ])
  })

  const use = { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Oslo' } }

  test('a call keeps its arguments as raw JSON, and its cache marker', () => {
    expect(saidBlocksOf({ ...use, ...mark }, { ...use, id: 'toolu_2', input: undefined })).toEqual([
      { type: 'tool-call', id: 'toolu_1', name: 'get_weather', input: '{"city":"Oslo"}', ...mark },
      { type: 'tool-call', id: 'toolu_2', name: 'get_weather', input: '{}' },
    ])
  })

  test('a call by a program keeps its caller, one by the model itself does not', () => {
    const program = { type: 'code_execution_20260120', tool_id: 'srvtoolu_1' }
    expect(
      saidBlocksOf({ ...use, caller: { type: 'direct' } }, { ...use, caller: program }),
    ).toEqual([
      { type: 'tool-call', id: 'toolu_1', name: 'get_weather', input: '{"city":"Oslo"}' },
      {
        type: 'tool-call',
        id: 'toolu_1',
        name: 'get_weather',
        input: '{"city":"Oslo"}',
        extra: { caller: program },
      },
    ])
  })

  test('trap 1, 19: each result becomes a separate message before the user’s own, in order', () => {
    const result = (id: string, more: object) => ({ type: 'tool_result', tool_use_id: id, ...more })
    const picture = {
      type: 'image',
      source: { type: 'base64', media_type: 'image/png', data: 'AAAA' },
    }
    const reference = { type: 'tool_reference', tool_name: 'x' }
    expect(
      turnsOf({
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          result('toolu_1', { content: 'Sunny', ...mark }),
          result('toolu_2', {
            content: [{ type: 'text', text: 'Broken' }, picture, reference],
            is_error: true,
          }),
          result('toolu_3', {}),
          { type: 'text', text: 'And?' },
        ],
      }),
    ).toEqual([
      { role: 'tool', tool_call_id: 'toolu_1', blocks: [{ type: 'text', text: 'Sunny' }], ...mark },
      {
        role: 'tool',
        tool_call_id: 'toolu_2',
        is_error: true,
        blocks: [
          { type: 'text', text: 'Broken' },
          { type: 'image', url: 'data:image/png;base64,AAAA' },
          { type: 'other', dialect: 'messages', value: reference },
        ],
      },
      { role: 'tool', tool_call_id: 'toolu_3', blocks: [] },
      {
        role: 'user',
        blocks: [
          { type: 'text', text: 'Look' },
          { type: 'text', text: 'And?' },
        ],
      },
    ])
    expect(
      turnsOf({ role: 'user', content: [result('toolu_1', { content: 'Sunny' })] }),
    ).toHaveLength(1)
  })

  test('a tool of the client becomes a function, one that Anthropic runs stays unchanged', () => {
    const input_schema = { type: 'object', properties: { city: { type: 'string' } }, $defs: {} }
    const search = { type: 'web_search_20250305', name: 'web_search', max_uses: 2 }
    expect(
      callOf({
        tools: [
          { name: 'a', input_schema },
          {
            type: 'custom',
            name: 'b',
            description: 'B',
            input_schema,
            strict: true,
            defer_loading: true,
            ...mark,
          },
          search,
        ],
      }).tools,
    ).toEqual([
      { type: 'function', name: 'a', parameters: input_schema },
      {
        type: 'function',
        name: 'b',
        description: 'B',
        parameters: input_schema,
        strict: true,
        ...mark,
        extra: { defer_loading: true },
      },
      { type: 'other', dialect: 'messages', value: search },
    ])
  })

  test('trap 28, 30: the tool choice and the limit to one call at a time are translated', () => {
    const choice = (tool_choice: object) => paramsOf({ tool_choice })
    expect(choice({ type: 'auto' })).toEqual({ tool_choice: 'auto' })
    expect(choice({ type: 'any', disable_parallel_tool_use: false })).toEqual({
      tool_choice: 'required',
    })
    expect(choice({ type: 'none' })).toEqual({ tool_choice: 'none' })
    expect(choice({ type: 'tool', name: 'a', disable_parallel_tool_use: true })).toEqual({
      tool_choice: { type: 'function', function: { name: 'a' } },
      parallel_tool_calls: false,
    })
  })
})

describe('thinking', () => {
  test('trap 93, 94: is sent back with its signature even if its text was hidden', () => {
    expect(
      saidBlocksOf(
        { type: 'thinking', thinking: 'Hm', signature: 'c2ln' },
        { type: 'redacted_thinking', data: 'AAEC' },
        { type: 'thinking', thinking: '', signature: 'c2lnMg==' },
        { type: 'thinking', thinking: 'Unsigned', signature: '' },
      ),
    ).toEqual([
      {
        type: 'reasoning',
        text: 'Hm',
        details: [
          {
            type: 'reasoning.text',
            text: 'Hm',
            signature: 'c2ln',
            format: 'anthropic-claude-v1',
            index: 0,
          },
        ],
      },
      {
        type: 'reasoning',
        text: null,
        details: [
          { type: 'reasoning.encrypted', data: 'AAEC', format: 'anthropic-claude-v1', index: 1 },
        ],
      },
      {
        type: 'reasoning',
        text: '',
        details: [
          {
            type: 'reasoning.text',
            text: '',
            signature: 'c2lnMg==',
            format: 'anthropic-claude-v1',
            index: 2,
          },
        ],
      },
      { type: 'reasoning', text: 'Unsigned', details: null },
    ])
  })

  test('can be enabled with a budget, adaptive, or disabled', () => {
    const wish = (thinking: object) => paramsOf({ thinking }).reasoning
    expect(wish({ type: 'enabled', budget_tokens: 2048 })).toEqual({
      enabled: true,
      max_tokens: 2048,
    })
    expect(wish({ type: 'adaptive' })).toEqual({ enabled: true })
    expect(wish({ type: 'adaptive', display: 'omitted' })).toEqual({ enabled: true, exclude: true })
    expect(wish({ type: 'enabled', budget_tokens: 2048, display: 'summarized' })).toEqual({
      enabled: true,
      max_tokens: 2048,
      summary: 'auto',
    })
    expect(wish({ type: 'disabled' })).toEqual({ enabled: false })
    expect(paramsOf({}).reasoning).toBeUndefined()
  })

  test('has the effort, unless it is off or has a budget: then the answer has it', () => {
    const wish = (thinking?: object) =>
      paramsOf({ output_config: { effort: 'high' }, ...(thinking ? { thinking } : {}) })
    expect(wish()).toEqual({ reasoning: { effort: 'high' } })
    expect(wish({ type: 'adaptive' })).toEqual({ reasoning: { enabled: true, effort: 'high' } })
    expect(wish({ type: 'disabled' })).toEqual({ reasoning: { enabled: false }, verbosity: 'high' })
    expect(wish({ type: 'enabled', budget_tokens: 1024 })).toEqual({
      reasoning: { enabled: true, max_tokens: 1024 },
      verbosity: 'high',
    })
  })
})

describe('parameters', () => {
  test('keep their names', () => {
    expect(
      paramsOf({
        max_tokens: 5,
        temperature: 0,
        top_p: 0.5,
        top_k: 3,
        stop_sequences: ['a', 'b', 'c', 'd', 'e'],
        service_tier: 'standard_only',
        ...mark,
      }),
    ).toEqual({
      max_tokens: 5,
      temperature: 0,
      top_p: 0.5,
      top_k: 3,
      stop: ['a', 'b', 'c', 'd', 'e'],
      service_tier: 'default',
      ...mark,
    })
    expect(
      paramsOf({ service_tier: 'constructor', top_k: 0, stop_sequences: [], max_tokens: null }),
    ).toEqual({
      service_tier: 'constructor',
    })
  })

  test('trap 44: include the format of the answer', () => {
    const schema = { type: 'object', properties: {} }
    expect(
      paramsOf({ output_config: { format: { type: 'json_schema', schema } } }).response_format,
    ).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', strict: true, schema },
    })
  })

  test('include the requested model and then its fallbacks', () => {
    expect(
      callOf({ models: ['b/b', 'acme/small'], fallbacks: [{ model: 'c/c', max_tokens: 5 }] })
        .models,
    ).toEqual(['acme/small', 'b/b', 'c/c'])
    expect(() =>
      callOf({ fallbacks: Array.from({ length: 8 }, (_, i) => ({ model: `a/${i}` })) }),
    ).toThrow('at most 8 models')
  })

  test('include providers, user and session', () => {
    const { workspace_id } = getOperator(gateway)
    const call = callOf({
      provider: { only: ['OpenAI'] },
      session_id: 's',
      trace: { a: 1 },
      metadata: { user_id: 'ada', team: 'x' },
    })
    expect(call).toMatchObject({
      routing: { only: ['openai'] },
      session_id: 's',
      trace: { a: 1 },
      user: hashUser(workspace_id, 'ada'),
    })
    expect(call.extra).toEqual({ metadata: { team: 'x' } })
    expect(callOf({ user: 'bob', metadata: { user_id: 'ada' } }).user).toBe(
      hashUser(workspace_id, 'bob'),
    )
  })

  test('trap 57: only fields for providers of the same dialect are kept as extra', () => {
    const extra = {
      context_management: { edits: [] },
      container: 'c',
      mcp_servers: [],
      safeguards: [],
      inference_geo: 'us',
    }
    const task_budget = { type: 'tokens', total: 20_000 }
    const call = callOf({
      ...extra,
      speed: 'fast',
      output_config: { effort: 'low', task_budget },
      plugins: [{ id: 'web' }],
      route: 'fallback',
    })
    expect(call.extra).toEqual({ ...extra, speed: 'fast', output_config: { task_budget } })
    expect(callOf({ speed: null, output_config: null }).extra).toEqual({})
  })
})

describe('a body is refused', () => {
  const content = (...blocks: unknown[]) => ({ messages: [{ role: 'user', content: blocks }] })

  test.each<[at: string, more: object]>([
    ['model', { model: undefined }],
    ['messages', { messages: [] }],
    ['messages.0.role', { messages: [{ role: 'tool', content: 'x' }] }],
    ['messages.0.content', { messages: [{ role: 'user' }] }],
    ['messages.0.content.0.text', content({ type: 'text' })],
    ['messages.0.content.0.source', content({ type: 'image' })],
    [
      'messages.0.content.0.source.data',
      content({ type: 'image', source: { type: 'base64', media_type: 'image/png' } }),
    ],
    ['messages.0.content.0.id', content({ type: 'tool_use', name: 'a' })],
    ['messages.0.content.0.tool_use_id', content({ type: 'tool_result' })],
    [
      'messages.0.content.0.content.0.text',
      content({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 5 }] }),
    ],
    ['messages.0.content.0.signature', content({ type: 'thinking', thinking: 'x' })],
    ['messages.0.content.0.data', content({ type: 'redacted_thinking' })],
    ['temperature', { temperature: 1.1 }],
    ['top_p', { top_p: -0.1 }],
    ['max_tokens', { max_tokens: 0 }],
    ['thinking.budget_tokens', { thinking: { type: 'enabled', budget_tokens: 1023 } }],
    ['tools.0.input_schema', { tools: [{ name: 'a' }] }],
    ['tool_choice.name', { tool_choice: { type: 'tool' } }],
    ['fallbacks.0.model', { fallbacks: [{}] }],
  ])('at %s', (at, more) => {
    expect(whereWrong(more)).toBe(at)
  })

  test('but accepted in every form of the public schema', () => {
    const text = { type: 'text', text: 'a' }
    expect(
      matchesSchema(
        MessagesRequest,
        bodyOf({
          ...content(
            text,
            {
              type: 'tool_result',
              tool_use_id: 'a',
              content: [text, { type: 'tool_reference', tool_name: 'x' }],
            },
            { type: 'brand_new' },
          ),
          max_tokens: null,
          system: [text],
          tools: [{ type: 'bash_20250124', name: 'bash' }],
          tool_choice: { type: 'none' },
          thinking: { type: 'adaptive', display: null },
        }),
      ),
    ).toBe(true)
  })
})
