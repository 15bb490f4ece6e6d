import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { Block } from '../../../../src/language/message.ts'
import type { Params } from '../../../../src/language/params.ts'
import type { Tool } from '../../../../src/language/tool.ts'
import { buildRequest } from '../../../../src/translation/protocols/anthropic-messages/request.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'

const fn = (name: string, more: object = {}): Tool => ({ type: 'function', name, ...more })
const sent = (more: Partial<TextCall>, upstreamModel = 'claude-sonnet-4-5', slug = 'anthropic') =>
  buildRequest(
    buildTextCall(more),
    buildEndpoint({ upstreamModel, provider: buildProvider({ slug }) }),
  ).body
const choice = (params: Params, model?: string) =>
  sent({ tools: [fn('look'), fn('walk')], params }, model).tool_choice

const LOOK = { name: 'look', input_schema: { type: 'object', properties: {} } }

describe('tools', () => {
  test('sends a function’s name, description and input schema', () => {
    const parameters = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }
    expect(sent({ tools: [fn('look', { description: 'Looks', parameters })] }).tools).toEqual([
      { name: 'look', description: 'Looks', input_schema: parameters },
    ])
  })

  test('trap 42: sends an object schema if there is none', () => {
    for (const parameters of [undefined, null, {}, [], 'x'])
      expect(sent({ tools: [fn('look', { parameters })] }).tools).toEqual([LOOK])
    expect(sent({ tools: [fn('look', { parameters: { properties: {} } })] }).tools).toEqual([LOOK])
  })

  test('trap 43: keeps other keywords of a schema', () => {
    const parameters = {
      type: 'object',
      $defs: { a: { type: 'string' } },
      oneOf: [{ required: ['a'] }],
      additionalProperties: false,
    }
    expect(sent({ tools: [fn('look', { parameters })] }).tools).toMatchObject([
      { input_schema: parameters },
    ])
  })

  test('sends strict to models that support it', () => {
    expect(sent({ tools: [fn('look', { strict: true })] }).tools).toEqual([
      { ...LOOK, strict: true },
    ])
    expect(sent({ tools: [fn('look', { strict: true })] }, 'claude-3-7-sonnet').tools).toEqual([
      LOOK,
    ])
    expect(sent({ tools: [fn('look', { strict: null })] }).tools).toEqual([LOOK])
  })

  test('passes on unknown fields of a function for clients of this dialect', () => {
    const tools = [fn('look', { extra: { defer_loading: true } })]
    expect(sent({ tools, dialect: 'messages' }).tools).toEqual([{ defer_loading: true, ...LOOK }])
    expect(sent({ tools }).tools).toEqual([LOOK])
  })

  test('trap 22: replaces invalid names in tools, choice and history', () => {
    const name = 'mcp/server.tool:äöü'
    const body = sent({
      tools: [fn(name)],
      params: { tool_choice: { type: 'function', function: { name } } },
      messages: [
        { role: 'user', blocks: [{ type: 'text', text: 'a' }] },
        { role: 'assistant', blocks: [{ type: 'tool-call', id: '1', name, input: '' }] },
      ],
    })
    const given = 'mcp_server_tool____'
    expect(body).toMatchObject({
      tools: [{ name: given }],
      tool_choice: { type: 'tool', name: given },
      messages: [{}, { content: [{ name: given }] }, {}],
    })
  })

  test('trap 21: replaces invalid ids, identically in call and result', () => {
    const id = 'functions.look:0|fc_1'
    const messages: TextCall['messages'] = [
      { role: 'user', blocks: [{ type: 'text', text: 'a' }] },
      { role: 'assistant', blocks: [{ type: 'tool-call', id, name: 'look', input: '' }] },
      { role: 'tool', tool_call_id: id, blocks: [{ type: 'text', text: 'r' }] },
    ]
    const [, calling, answering] = sent({ messages }).messages as {
      content: Record<string, string>[]
    }[]
    expect(calling?.content[0]?.id).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    expect(answering?.content[0]?.tool_use_id).toBe(calling?.content[0]?.id ?? '')
  })

  test.each([
    ['{"a":1}', '{"a":1}'],
    ['', '{}'],
    ['  ', '{}'],
    ['{"id":12345678901234567890}', '{"id":12345678901234567890}'],
    ['{"a":', '{"INVALID_JSON":"{\\"a\\":"}'],
    ['[]', '{"INVALID_JSON":"[]"}'],
    ['"x"', '{"INVALID_JSON":"\\"x\\""}'],
  ])('trap 23, 24, 26: arguments %p are sent as %p', (input, expected) => {
    const messages: TextCall['messages'] = [
      { role: 'assistant', blocks: [{ type: 'tool-call', id: '1', name: 'look', input }] },
    ]
    expect(JSON.stringify(sent({ messages }).messages)).toContain(`"input":${expected}}`)
  })

  test('trap 35: passes on this API’s own tools in its dialect, and refuses others', () => {
    const own = { type: 'web_search_20250305', name: 'web_search', max_uses: 3 }
    expect(
      sent({ tools: [fn('look'), { type: 'other', dialect: 'messages', value: own }] }).tools,
    ).toEqual([LOOK, own])
    const foreign: Tool = {
      type: 'other',
      dialect: 'responses',
      value: { type: 'custom', name: 'x' },
    }
    const refused = () => sent({ tools: [fn('look'), foreign] })
    expect(refused).toThrow(GatewayError)
    expect(refused).toThrow('tools.1: custom is a tool that this model')
    for (const value of [null, 'x', {}, { type: 7 }])
      expect(() => sent({ tools: [{ type: 'other', dialect: 'chat', value }] })).toThrow(
        GatewayError,
      )
  })

  test('maps web search to the provider’s own', () => {
    const value = {
      type: 'web_search',
      max_uses: 2,
      allowed_domains: ['a.example'],
      user_location: { type: 'approximate', city: 'Bern', country: 'CH' },
    }
    const search = { type: 'web_search_20250305', name: 'web_search' }
    expect(sent({ tools: [{ type: 'other', dialect: 'chat', value }] }).tools).toEqual([
      {
        ...search,
        max_uses: 2,
        allowed_domains: ['a.example'],
        user_location: { type: 'approximate', city: 'Bern', country: 'CH' },
      },
    ])
    const web_search_options = {
      search_context_size: 'low',
      user_location: { type: 'approximate', approximate: { country: 'CH' } },
    }
    expect(sent({ params: { web_search_options } }).tools).toEqual([
      { ...search, user_location: { type: 'approximate', country: 'CH' } },
    ])
    expect(() =>
      sent({
        tools: [{ type: 'other', dialect: 'chat', value: { type: 'web_search', engine: 'exa' } }],
      }),
    ).toThrow(GatewayError)
    expect(() =>
      sent({ tools: [{ type: 'other', dialect: 'chat', value }] }, 'some-model', 'elsewhere'),
    ).toThrow(GatewayError)
    expect(sent({ params: { web_search_options } }, 'some-model', 'elsewhere')).not.toHaveProperty(
      'tools',
    )
  })
})

describe('tool choice', () => {
  test.each<[Params, unknown]>([
    [{}, undefined],
    [{ tool_choice: 'auto' }, { type: 'auto' }],
    [{ tool_choice: 'required' }, { type: 'any' }],
    [{ tool_choice: 'none' }, { type: 'none' }],
    [
      { tool_choice: { type: 'function', function: { name: 'walk' } } },
      { type: 'tool', name: 'walk' },
    ],
    [{ tool_choice: { type: 'odd' } }, { type: 'auto' }],
    [{ parallel_tool_calls: true }, undefined],
    [{ tool_choice: 'required', parallel_tool_calls: true }, { type: 'any' }],
    [{ tool_choice: 'none', parallel_tool_calls: false }, { type: 'none' }],
  ])('%j is %j', (params, expected) => {
    expect(choice(params)).toEqual(expected as never)
  })

  test('trap 30: disables parallel calls within the choice, and adds one if needed', () => {
    const alone = { disable_parallel_tool_use: true }
    expect(choice({ parallel_tool_calls: false })).toEqual({ type: 'auto', ...alone })
    expect(choice({ parallel_tool_calls: false, tool_choice: 'required' })).toEqual({
      type: 'any',
      ...alone,
    })
    expect(
      choice({
        parallel_tool_calls: false,
        tool_choice: { type: 'function', function: { name: 'look' } },
      }),
    ).toEqual({
      type: 'tool',
      name: 'look',
      ...alone,
    })
  })

  test('offers only the allowed tools', () => {
    const tools = ['look', 'walk', 'talk'].map(name => fn(name))
    const between = (tool_choice: object) =>
      sent({ tools, params: { tool_choice: tool_choice as never } })
    const [look, , talk] = ['look', 'walk', 'talk'].map(name => ({ name }))
    const chosen = [
      { type: 'function', function: { name: 'look' } },
      { type: 'function', name: 'talk' },
    ]
    const chat = between({
      type: 'allowed_tools',
      allowed_tools: { mode: 'required', tools: chosen },
    })
    expect(chat).toMatchObject({ tools: [look, talk], tool_choice: { type: 'any' } })
    const responses = between({ type: 'allowed_tools', mode: 'auto', tools: chosen })
    expect(responses).toMatchObject({ tools: [look, talk], tool_choice: { type: 'auto' } })
    expect(between({ type: 'allowed_tools', tools: [{ name: 'odd' }, null] }).tools).toHaveLength(3)
  })

  test('sends no choice without tools', () => {
    expect(sent({ params: { tool_choice: 'none', parallel_tool_calls: false } })).toEqual(sent({}))
  })

  test('trap 4: accepts a history of calls without tools', () => {
    const call: Block = { type: 'tool-call', id: '1', name: 'look', input: '' }
    expect(sent({ messages: [{ role: 'assistant', blocks: [call] }] })).not.toHaveProperty('tools')
  })

  test('trap 28: offers only the requested tool to a model that cannot be forced', () => {
    expect(choice({ tool_choice: 'required' }, 'claude-opus-5-5')).toEqual({ type: 'auto' })
    const body = sent(
      {
        tools: [fn('look'), fn('walk')],
        params: { tool_choice: { type: 'function', function: { name: 'look' } } },
      },
      'claude-opus-5-5',
    )
    expect(body).toMatchObject({ tools: [LOOK], tool_choice: { type: 'auto' } })
    expect(body.tools).toHaveLength(1)
  })
})
