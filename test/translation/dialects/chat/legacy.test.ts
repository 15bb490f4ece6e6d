import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { matchesSchema } from '../../../../src/base/schema.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import {
  collectChatResponse,
  readChatShape,
} from '../../../../src/translation/dialects/chat/response.ts'
import { ChatRequest } from '../../../../src/translation/dialects/chat/schema.ts'
import { ChatStreamWriter, chat } from '../../../../src/translation/dialects/chat.ts'
import { buildTextCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const { origin, id } = buildTextCall()
const understood = (body: object) => {
  expect(matchesSchema(ChatRequest, body)).toBe(true)
  return chat.toCall(gateway, getOperator(gateway), body as ChatRequest, {
    id,
    origin,
    session_id: null,
    betas: [],
  })
}

describe('trap 37: a client that uses legacy functions', () => {
  const functions = [{ name: 'f', description: 'd', parameters: { type: 'object' } }]

  test('requests tools', () => {
    const { tools, params, extra } = understood({
      messages: [{ role: 'user', content: 'Hi' }],
      functions,
      function_call: { name: 'f' },
    })
    expect(tools).toEqual([{ type: 'function', ...functions[0] }] as typeof tools)
    expect(params.tool_choice).toEqual({ type: 'function', function: { name: 'f' } })
    expect(extra).toEqual({})
    expect(
      understood({ messages: [{ role: 'user', content: 'Hi' }], functions, function_call: 'none' })
        .params.tool_choice,
    ).toBe('none')
  })

  test('sends its calls, and each result belongs to the last call of that name', () => {
    const called = (name: string) => ({
      role: 'assistant',
      content: null,
      function_call: { name, arguments: '{}' },
    })
    const { messages } = understood({
      functions,
      messages: [
        called('f'),
        { role: 'function', name: 'f', content: 'one' },
        called('f'),
        { role: 'function', name: 'f', content: 'two' },
      ],
    })
    expect(messages.map(turn => turn.role)).toEqual(['assistant', 'tool', 'assistant', 'tool'])
    const ids = messages.map(
      turn =>
        turn.tool_call_id ??
        turn.blocks.flatMap(block => (block.type === 'tool-call' ? block.id : []))[0],
    )
    expect(ids[0]).toBe(ids[1])
    expect(ids[2]).toBe(ids[3])
    expect(ids[0]).not.toBe(ids[2])
  })

  const parts: TextPart[] = [
    { type: 'tool-call-start', choice: 0, index: 0, id: 'call_1', name: 'f' },
    { type: 'tool-call-delta', choice: 0, index: 0, input: '{"a":1}' },
    { type: 'finish', choice: 0, reason: 'tool_calls', native: 'tool_calls' },
  ]
  const answer = { id, created: 1, model: 'm', provider: 'p' }

  test('gets both function_call and tool_calls, whole and streamed', async () => {
    const body: ChatRequest = { messages: [{ role: 'user', content: 'Hi' }], functions }
    const shape = readChatShape('chat.completion', buildTextCall(), body)
    const collected = await collectChatResponse(
      { ...answer, parts: { collect: async () => [parts] } } as never,
      shape,
    )
    expect(JSON.parse(JSON.stringify(collected)).choices[0].message).toMatchObject({
      function_call: { name: 'f', arguments: '{"a":1}' },
      tool_calls: [{ id: 'call_1' }],
    })
    const written = new ChatStreamWriter(answer, shape).write(parts)
    expect(written).toContain('"function_call":{"name":"f","arguments":""}')
    expect(written).toContain('"function_call":{"arguments":"{\\"a\\":1}"}')
  })

  test('is the only one that gets function_call', async () => {
    expect(
      new ChatStreamWriter(
        answer,
        readChatShape('chat.completion', buildTextCall(), { messages: [] }),
      ).write(parts),
    ).not.toContain('function_call')
  })
})
