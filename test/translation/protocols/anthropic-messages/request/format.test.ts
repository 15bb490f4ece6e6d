import { describe, expect, test } from 'bun:test'
import type { TextCall } from '../../../../../src/language/call.ts'
import {
  buildRequest,
  buildVertexRequest,
} from '../../../../../src/translation/protocols/anthropic-messages/request.ts'
import { buildEndpoint, buildTextCall } from '../../../../support/call.ts'

const SCHEMA = {
  type: 'object',
  properties: { a: { type: 'string' } },
  required: ['a'],
  additionalProperties: false,
}
const format = (schema: Record<string, unknown> = SCHEMA, more: object = {}) => ({
  response_format: {
    type: 'json_schema' as const,
    json_schema: { name: 'x', strict: true, schema, ...more },
  },
})
const OBJECT = { response_format: { type: 'json_object' as const } }
const sent = (more: Partial<TextCall>, upstreamModel = 'claude-sonnet-4-5') =>
  buildRequest(buildTextCall(more), buildEndpoint({ upstreamModel })).body
const FORCED = { type: 'any', disable_parallel_tool_use: true }

describe('the answer format', () => {
  test('trap 44: sends a schema natively to a model that supports it', () => {
    const body = sent({ params: format() })
    expect(body.output_config).toEqual({ format: { type: 'json_schema', schema: SCHEMA } })
    expect(body).not.toHaveProperty('tools')
  })

  test('sends a schema together with the effort', () => {
    expect(
      sent({ params: { ...format(), reasoning: { effort: 'low' } } }, 'claude-opus-4-8')
        .output_config,
    ).toEqual({
      effort: 'low',
      format: { type: 'json_schema', schema: SCHEMA },
    })
  })

  test('sends no format for plain text', () => {
    for (const response_format of [{ type: 'text' as const }, { type: 'odd' }])
      expect(sent({ params: { response_format } })).toEqual(sent({}))
  })

  test.each([
    ['an older model', 'claude-3-7-sonnet', SCHEMA],
    ['another vendor’s model', 'some-model', SCHEMA],
    [
      'an object with arbitrary members',
      'claude-sonnet-4-5',
      { type: 'object', additionalProperties: { type: 'string' } },
    ],
    ['a recursive schema', 'claude-sonnet-4-5', { ...SCHEMA, properties: { a: { $ref: '#' } } }],
  ])(
    'trap 46: for %s the answer is the input of a forced tool, without parallel calls',
    (_what, model, schema) => {
      expect(sent({ params: format(schema, { description: 'The answer' }) }, model)).toMatchObject({
        tools: [{ name: 'json', description: 'The answer', input_schema: schema }],
        tool_choice: FORCED,
      })
    },
  )

  test('trap 44: uses a forced tool on Vertex', () => {
    const at = buildEndpoint({ upstreamModel: 'claude-sonnet-4-5', protocol: 'anthropic-vertex' })
    expect(buildVertexRequest(buildTextCall({ params: format() }), at).body).toMatchObject({
      tools: [{ name: 'json' }],
      tool_choice: FORCED,
    })
    const newest = buildEndpoint({ upstreamModel: 'claude-opus-5-5', protocol: 'anthropic-vertex' })
    expect(buildVertexRequest(buildTextCall({ params: format() }), newest).body).toMatchObject({
      output_config: { format: { schema: SCHEMA } },
    })
  })

  test('uses a forced tool for any JSON object', () => {
    expect(sent({ params: OBJECT })).toMatchObject({
      tools: [
        {
          name: 'json',
          description: 'Respond with a JSON object.',
          input_schema: { type: 'object', additionalProperties: true },
        },
      ],
      tool_choice: FORCED,
    })
  })

  test('instructs a model that cannot be forced', () => {
    const body = sent(
      {
        params: OBJECT,
        messages: [
          { role: 'system', blocks: [{ type: 'text', text: 's' }] },
          ...buildTextCall().messages,
        ],
      },
      'claude-opus-5-5',
    )
    expect(body.system).toEqual([
      { type: 'text', text: 's' },
      {
        type: 'text',
        text: 'Answer with one JSON object and nothing else: no words around it, no code fence.',
      },
    ])
    expect(body).not.toHaveProperty('tools')
  })

  test('keeps the tools that the caller wants, and avoids their names', () => {
    const tools = [
      { type: 'function' as const, name: 'look' },
      { type: 'function' as const, name: 'json' },
    ]
    const offered = (tool_choice: TextCall['params']['tool_choice']) =>
      (
        sent({ tools, params: { ...OBJECT, ...(tool_choice ? { tool_choice } : {}) } }).tools as {
          name: string
        }[]
      ).map(tool => tool.name)
    expect(offered(undefined)).toEqual(['look', 'json', 'json_answer'])
    expect(offered('none')).toEqual(['json_answer'])
    expect(offered({ type: 'function', function: { name: 'look' } })).toEqual([
      'look',
      'json_answer',
    ])
  })

  test('sends a client’s schema unchanged in its own dialect', () => {
    const schema = { type: 'object', properties: { n: { type: 'integer', minimum: 1 } } }
    expect(sent({ dialect: 'messages', params: format(schema) }).output_config).toEqual({
      format: { type: 'json_schema', schema },
    })
  })
})
