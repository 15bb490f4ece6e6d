import { describe, expect, test } from 'bun:test'
import { fitToEndpoint } from '../../../src/engine/kinds/text/understanding.ts'
import { kinds } from '../../../src/engine/kinds.ts'
import type { Tool } from '../../../src/language/tool.ts'
import { protocols } from '../../../src/translation/protocols/registry.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../support/call.ts'

const other = (value: object): Tool => ({ type: 'other', dialect: 'responses', value })
const callWith = (...tools: Tool[]) => buildTextCall({ dialect: 'responses', tools })
const at = (slug: string, protocol: string) =>
  buildEndpoint({ provider: buildProvider({ slug }), protocol })

describe('the search tool of the Responses API', () => {
  const search = other({
    type: 'web_search',
    filters: { allowed_domains: ['a.example'] },
    user_location: { type: 'approximate', city: 'Bern' },
  })

  test('becomes search options where the provider reads them', () => {
    const { tools, params } = fitToEndpoint(callWith(search), at('anthropic', 'anthropic-messages'))
    expect(tools).toEqual([])
    expect(params.web_search_options).toEqual({
      allowed_domains: ['a.example'],
      user_location: { type: 'approximate', city: 'Bern' },
    })
  })

  test('stays where the provider has it, and is left out by name where none can search', () => {
    const { tools } = fitToEndpoint(callWith(search), at('openai', 'openai-responses'))
    expect(tools).toEqual([search])
    const endpoint = at('cohere', 'cohere-chat')
    expect(fitToEndpoint(callWith(search), endpoint).tools).toEqual([])
    expect(kinds.text.understanding.listIgnored(callWith(search), endpoint)).toEqual(['web_search'])
  })
})

describe('a custom tool', () => {
  const patch = other({
    type: 'custom',
    name: 'patch',
    description: 'Changes a file',
    format: { type: 'grammar', syntax: 'lark', definition: 'start: "+"' },
  })

  test('becomes a function with one text, which the grammar describes', () => {
    expect(fitToEndpoint(callWith(patch), at('cohere', 'cohere-chat')).tools).toMatchObject([
      {
        type: 'function',
        name: 'patch',
        description: 'Changes a file',
        parameters: {
          properties: { input: { type: 'string', description: expect.stringContaining('"+"') } },
          required: ['input'],
        },
      },
    ])
  })

  test('stays where the provider has it', () => {
    const { tools } = fitToEndpoint(callWith(patch), at('openai', 'openai-responses'))
    expect(tools).toEqual([patch])
  })

  test('is named in a choice as the function that it becomes', () => {
    const call = callWith(patch)
    const choose = (tool_choice: never) =>
      fitToEndpoint({ ...call, params: { tool_choice } }, at('cohere', 'cohere-chat')).params
        .tool_choice
    expect<unknown>(choose({ type: 'custom', name: 'patch' } as never)).toEqual({
      type: 'function',
      function: { name: 'patch' },
    })
    expect<unknown>(choose('auto' as never)).toBe('auto')
  })
})

describe('a tool that only some providers have', () => {
  const { understanding } = kinds.text
  const CLIENTS = [
    { type: 'shell' },
    { type: 'shell', environment: { type: 'local' } },
    { type: 'local_shell' },
    { type: 'apply_patch' },
    { type: 'computer_use_preview', environment: 'linux', display_width: 800, display_height: 600 },
    { type: 'namespace', name: 'crm', tools: [{ type: 'function', name: 'find' }] },
    { type: 'tool_search', execution: 'client', parameters: { type: 'object', properties: {} } },
  ]
  const HOSTED = [
    { type: 'mcp', server_label: 'a' },
    { type: 'code_interpreter', container: { type: 'auto' } },
    { type: 'file_search', vector_store_ids: ['vs_1'] },
    { type: 'shell', environment: { type: 'container_auto' } },
    { type: 'tool_search' },
    { type: 'hologram' },
  ]
  const FOREIGN = ['openai-chat', 'anthropic-messages', 'gemini', 'bedrock-converse', 'cohere-chat']

  test.each(HOSTED)('%j is asked of its providers first, and of no other on request', tool => {
    const call = callWith(other(tool))
    const strict = { ...call, routing: { ...call.routing, require_parameters: true } }
    for (const [protocol, has] of [
      ...FOREIGN.map(name => [name, false] as const),
      ['openai-responses', true] as const,
    ]) {
      const endpoint = at(protocol, protocol)
      expect([protocol, understanding.supportsPreferred(call, endpoint)]).toEqual([protocol, has])
      const verdict = has ? true : 'require_parameters'
      expect([protocol, understanding.checkEndpoint(strict, endpoint)]).toEqual([protocol, verdict])
      expect(understanding.checkEndpoint(call, endpoint)).toBe(true)
    }
  })

  test.each(HOSTED)('%j is left out by its name elsewhere', tool => {
    for (const protocol of FOREIGN) {
      const endpoint = at(protocol, protocol)
      const call = callWith(other(tool))
      const fitted = fitToEndpoint(call, endpoint)
      expect(understanding.listIgnored(call, endpoint)).toEqual([tool.type])
      expect(() => protocols.text[protocol]?.buildRequest(fitted, endpoint)).not.toThrow()
      expect(fitted.tools).toEqual([])
    }
  })

  test.each(HOSTED)('%j that the model must use is refused, with what would mend that', tool => {
    for (const choice of [{ type: tool.type }, 'required', allow('required', tool)])
      for (const protocol of FOREIGN) {
        const call = { ...callWith(other(tool)), params: { tool_choice: choice as never } }
        expect(() => fitToEndpoint(call, at(protocol, protocol))).toThrow(
          new RegExp(`^tool_choice: ${tool.type} is .*; .*(providers\\.|mcp_servers)`),
        )
      }
    const free = { ...callWith(other(tool)), params: { tool_choice: allow('auto', tool) as never } }
    expect(fitToEndpoint(free, at('cohere', 'cohere-chat')).params.tool_choice).toBeUndefined()
  })

  const allow = (mode: string, tool: object) => ({
    type: 'allowed_tools',
    allowed_tools: { mode, tools: [tool] },
  })

  test.each(CLIENTS)('%j that the client runs is at home everywhere', tool => {
    for (const protocol of FOREIGN) {
      const endpoint = at(protocol, protocol)
      const call = callWith(other(tool))
      expect(understanding.supportsPreferred(call, endpoint)).toBe(true)
      const { tools } = fitToEndpoint(call, endpoint)
      expect(tools).toMatchObject([{ type: 'function' }])
      expect(() =>
        protocols.text[protocol]?.buildRequest({ ...call, tools }, endpoint),
      ).not.toThrow()
    }
  })
})

describe('a tool of Anthropic’s API', () => {
  const { understanding } = kinds.text
  const messages = (value: object) =>
    buildTextCall({ dialect: 'messages', tools: [{ type: 'other', dialect: 'messages', value }] })
  const FOREIGN = ['openai-chat', 'openai-responses', 'gemini', 'bedrock-converse', 'cohere-chat']

  test.each([
    [{ type: 'bash_20250124', name: 'bash' }, 'command'],
    [{ type: 'text_editor_20250728', name: 'str_replace_based_edit_tool' }, 'old_str'],
    [{ type: 'memory_20250818', name: 'memory' }, 'old_path'],
    [
      { type: 'computer_20250124', name: 'computer', display_width_px: 8, display_height_px: 6 },
      'coordinate',
    ],
  ])('%j that the client runs becomes a function of its name', (tool, member) => {
    for (const protocol of FOREIGN) {
      const endpoint = at(protocol, protocol)
      const [translated] = fitToEndpoint(messages(tool), endpoint).tools
      expect(translated).toMatchObject({
        type: 'function',
        name: tool.name,
        parameters: { properties: { [member]: {} } },
      })
      expect(understanding.listIgnored(messages(tool), endpoint)).toEqual([])
    }
  })

  test.each([
    { type: 'code_execution_20250825', name: 'code_execution' },
    { type: 'web_fetch_20250910', name: 'web_fetch' },
    { type: 'hologram_20270101', name: 'hologram' },
  ])('%j that only a provider runs is left out by name', tool => {
    for (const protocol of FOREIGN) {
      const endpoint = at(protocol, protocol)
      expect(fitToEndpoint(messages(tool), endpoint).tools).toEqual([])
      expect(understanding.listIgnored(messages(tool), endpoint)).toEqual([tool.type])
    }
    const home = at('anthropic', 'anthropic-messages')
    expect(fitToEndpoint(messages(tool), home).tools).toHaveLength(1)
    expect(fitToEndpoint(messages(tool), at('deepseek', 'anthropic-messages')).tools).toEqual([])
  })
})
