import { expect, test } from 'bun:test'
import type { Json } from '../../../src/base/json.ts'
import type { Tool } from '../../../src/language/tool.ts'
import { protocols } from '../../../src/translation/protocols/registry.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../support/call.ts'

/* A choice among several tools holds also where a provider has no such choice. */

const tools = ['look', 'walk', 'go.far'].map(
  (name): Tool => ({ type: 'function', name, parameters: { type: 'object', properties: {} } }),
)

const build = (protocol: string, upstreamModel: string, mode: string, slug = 'local') => {
  const allowed = ['look', 'go.far'].map(name => ({ type: 'function', function: { name } }))
  const tool_choice = { type: 'allowed_tools', allowed_tools: { mode, tools: allowed } } as never
  const call = buildTextCall({ tools, params: { tool_choice } })
  const endpoint = buildEndpoint({ protocol, upstreamModel, provider: buildProvider({ slug }) })
  return protocols.text[protocol]?.buildRequest(call, endpoint).body as Json
}

const listNames = (body: Json): string[] =>
  [...JSON.stringify(body).matchAll(/"name":"([^"]+)"/g)].map(([, name = '']) => name)

const ROWS: [protocol: string, model: string, names: string[], auto: Json, required: Json][] = [
  [
    'gemini',
    'gemini-2.5-flash',
    ['look', 'go.far'],
    { toolConfig: { functionCallingConfig: { mode: 'AUTO' } } },
    { toolConfig: { functionCallingConfig: { mode: 'ANY' } } },
  ],
  [
    'bedrock-converse',
    'anthropic.claude-sonnet-4-5-20250929-v1:0',
    ['look', 'go_far'],
    { toolConfig: {} },
    { toolConfig: { toolChoice: { any: {} } } },
  ],
  ['cohere-chat', 'command-a-03-2025', ['look', 'go_far'], {}, { tool_choice: 'REQUIRED' }],
  [
    'anthropic-messages',
    'claude-sonnet-4-5',
    ['look', 'go_far'],
    { tool_choice: { type: 'auto' } },
    { tool_choice: { type: 'any' } },
  ],
  [
    'openai-chat',
    'small',
    ['look', 'go.far'],
    { tool_choice: 'auto' },
    { tool_choice: 'required' },
  ],
]

test.each(ROWS)('%s offers only the tools that may be chosen', (name, model, names, auto, must) => {
  expect(listNames(build(name, model, 'auto'))).toEqual(names)
  expect(build(name, model, 'auto')).toMatchObject(auto)
  expect(build(name, model, 'required')).toMatchObject(must)
})

test('OpenAI gets all tools with the choice, so that what it has cached stays', () => {
  const body = build('openai-chat', 'gpt-5', 'auto', 'openai')
  expect(body.tools).toHaveLength(3)
  expect(body.tool_choice).toMatchObject({ type: 'allowed_tools' })
})
