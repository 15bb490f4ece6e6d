import { describe, expect, test } from 'bun:test'
import type { TextCall } from '../../../../../src/language/call.ts'
import type { Block } from '../../../../../src/language/message.ts'
import {
  buildRequest,
  buildVertexRequest,
} from '../../../../../src/translation/protocols/anthropic-messages/request.ts'
import { buildEndpoint, buildTextCall } from '../../../../support/call.ts'

const cache_control = { type: 'ephemeral' as const }
const hour = { type: 'ephemeral' as const, ttl: '1h' as const }
const marked = (said: string): Block => ({ type: 'text', text: said, cache_control })

const sent = (more: Partial<TextCall>) =>
  buildRequest(buildTextCall(more), buildEndpoint({ upstreamModel: 'claude-sonnet-4-5' })).body
const count = (body: unknown) => JSON.stringify(body).split('"cache_control"').length - 1

describe('trap 55: cache markers', () => {
  test('keeps markers on tools, instructions, messages and results', () => {
    const body = sent({
      tools: [{ type: 'function', name: 'look', cache_control: hour }],
      messages: [
        { role: 'system', blocks: [marked('s')] },
        { role: 'user', blocks: [marked('u')] },
        { role: 'assistant', blocks: [{ type: 'tool-call', id: '1', name: 'look', input: '{}' }] },
        { role: 'tool', tool_call_id: '1', blocks: [{ type: 'text', text: 'r' }], cache_control },
      ],
    })
    expect(body).toMatchObject({
      tools: [{ name: 'look', cache_control: hour }],
      system: [{ type: 'text', text: 's', cache_control }],
      messages: [
        { content: [{ text: 'u', cache_control }] },
        {},
        { content: [{ type: 'tool_result', cache_control }] },
      ],
    })
    expect(count(body)).toBe(4)
  })

  test('keeps the automatic marker of the whole request', () => {
    expect(sent({ params: { cache_control } }).cache_control).toEqual(cache_control)
  })

  test('drops the automatic marker first if there are more than four', () => {
    const messages = [{ role: 'user' as const, blocks: ['a', 'b', 'c', 'd'].map(marked) }]
    const body = sent({ messages, params: { cache_control } })
    expect(body).not.toHaveProperty('cache_control')
    expect(count(body)).toBe(4)
  })

  test('then drops the earliest, in the order in which the provider reads', () => {
    const body = sent({
      tools: [{ type: 'function', name: 'look', cache_control }],
      messages: [
        { role: 'system', blocks: [marked('s')] },
        { role: 'user', blocks: ['a', 'b', 'c', 'd'].map(marked) },
      ],
    })
    expect(count(body)).toBe(4)
    expect(count(body.messages)).toBe(4)
    expect(count([body.tools, body.system])).toBe(0)
  })

  test('counts the markers within a result', () => {
    const body = sent({
      messages: [
        { role: 'user', blocks: [marked('a')] },
        {
          role: 'assistant',
          blocks: [{ type: 'tool-call', id: '1', name: 'look', input: '{}', cache_control }],
        },
        { role: 'tool', tool_call_id: '1', blocks: [marked('x'), marked('y')], cache_control },
      ],
    })
    expect(count(body)).toBe(4)
    expect(body.messages).toMatchObject([{ content: [{ type: 'text', text: 'a' }] }, {}, {}])
  })

  test('puts the automatic marker on the last block for Vertex', () => {
    const at = buildEndpoint({ upstreamModel: 'claude-sonnet-4-5', protocol: 'anthropic-vertex' })
    const marked = buildVertexRequest(buildTextCall({ params: { cache_control } }), at).body
    expect(marked).not.toHaveProperty('cache_control')
    expect(marked.messages).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control }] },
    ])
    const messages = [
      {
        role: 'user' as const,
        blocks: [{ type: 'text' as const, text: 'a', cache_control: hour }],
      },
    ]
    expect(
      buildVertexRequest(buildTextCall({ messages, params: { cache_control } }), at).body.messages,
    ).toMatchObject([{ content: [{ cache_control: hour }] }])
  })
})
