import { describe, expect, test } from 'bun:test'
import { replaceCustomTools } from '../../../../src/core/inference/kinds/text/custom-tools.ts'
import { fitToEndpoint } from '../../../../src/core/inference/kinds/text/understanding.ts'
import { kinds } from '../../../../src/core/inference/kinds.ts'
import type { Tool } from '../../../../src/core/language/tool.ts'
import { protocols } from '../../../../src/core/protocols/registry.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'

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

  test('stays where the provider has it, and where none can search', () => {
    for (const [slug, protocol] of [
      ['openai', 'openai-responses'],
      ['cohere', 'cohere-chat'],
    ] as const)
      expect(fitToEndpoint(callWith(search), at(slug, protocol)).tools).toEqual([search])
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
    expect(replaceCustomTools(callWith(patch)).tools).toMatchObject([
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
      replaceCustomTools({ ...call, params: { tool_choice } }).params.tool_choice
    expect<unknown>(choose({ type: 'custom', name: 'patch' } as never)).toEqual({
      type: 'function',
      function: { name: 'patch' },
    })
    expect<unknown>(choose('auto' as never)).toBe('auto')
  })

  test('of another dialect is left alone', () => {
    const call = { ...callWith(patch), dialect: 'chat' as const }
    expect(replaceCustomTools(call)).toBe(call)
  })
})

describe('a tool that only some providers have', () => {
  const { understanding } = kinds.text
  const OWN = [
    { type: 'shell' },
    { type: 'apply_patch' },
    { type: 'computer_use_preview', environment: 'linux' },
    { type: 'namespace', name: 'crm', tools: [{ type: 'function', name: 'find' }] },
    { type: 'mcp', server_label: 'a' },
    { type: 'hologram' },
  ]
  const FOREIGN = ['openai-chat', 'anthropic-messages', 'gemini', 'bedrock-converse', 'cohere-chat']

  test.each(OWN)('%j is asked of its providers first, and of no other on request', tool => {
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

  test.each(OWN)('%j is refused by its name elsewhere', tool => {
    for (const protocol of FOREIGN) {
      const endpoint = at(protocol, protocol)
      const call = fitToEndpoint(callWith(other(tool)), endpoint)
      expect(() => protocols.text[protocol]?.buildRequest(call, endpoint)).toThrow(
        `tools.0: ${tool.type} is a tool that this model’s provider does not have`,
      )
    }
  })

  test('functions and custom tools are at home everywhere', () => {
    const call = callWith({ type: 'function', name: 'a' }, other({ type: 'custom', name: 'b' }))
    for (const protocol of FOREIGN)
      expect(understanding.supportsPreferred(call, at(protocol, protocol))).toBe(true)
  })
})
