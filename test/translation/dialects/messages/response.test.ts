import { describe, expect, test } from 'bun:test'
import type { TextPart } from '../../../../src/language/part.ts'
import { collectMessagesResponse } from '../../../../src/translation/dialects/messages.ts'
import { createAnswer, failed, finish, receipt, start, text } from '../../../support/answer.ts'
import { buildTextCall } from '../../../support/call.ts'

const choice = 0

describe('a whole answer', () => {
  const messageOf = (...parts: TextPart[]) =>
    collectMessagesResponse(createAnswer(parts), buildTextCall())

  test('is the message that the events of a stream would build', async () => {
    const message = await messageOf(
      start,
      {
        type: 'reasoning-delta',
        choice,
        text: 'Hm',
        details: [
          {
            type: 'reasoning.text',
            text: 'Hm',
            signature: 's',
            format: 'anthropic-claude-v1',
            index: 0,
          },
        ],
      },
      text('Hel'),
      text('lo'),
      { type: 'tool-call-start', choice, index: 0, id: 'call_0', name: 'get' },
      { type: 'tool-call-delta', choice, index: 0, input: '{"id":12345678901234567890' },
      { type: 'tool-call-delta', choice, index: 0, input: '}' },
      { type: 'finish', choice, reason: 'tool_calls', native: 'tool_calls' },
      receipt,
    )
    expect(message).toMatchObject({
      id: 'gen-1',
      type: 'message',
      role: 'assistant',
      model: 'acme/small',
      provider: 'Local',
    })
    expect(message).toMatchObject({
      stop_reason: 'tool_use',
      stop_sequence: null,
      stop_details: null,
      container: null,
    })
    expect(message.content.slice(0, 2)).toEqual([
      { type: 'thinking', thinking: 'Hm', signature: 's' },
      { type: 'text', text: 'Hello', citations: [] },
    ])
    expect(message.usage).toMatchObject({
      input_tokens: 10,
      output_tokens: 5,
      service_tier: 'standard',
    })
    // Trap 26: the client reads the same digits.
    expect(JSON.stringify(message.content[2])).toContain('"input":{"id":12345678901234567890}')
  })

  test('has the sources of its texts', async () => {
    const citation = { type: 'page_location', cited_text: 'a' }
    const message = await messageOf(
      text('a'),
      { type: 'annotation', choice, annotation: null, citation },
      finish,
      receipt,
    )
    expect(message.content).toEqual([{ type: 'text', text: 'a', citations: [citation] }])
  })

  test('trap 23, 24: arguments that are truncated or not an object are wrapped', async () => {
    const call = (index: number, input: string): TextPart[] => [
      { type: 'tool-call-start', choice, index, id: `call_${index}`, name: 'get' },
      { type: 'tool-call-delta', choice, index, input },
    ]
    const { content } = await messageOf(
      ...call(0, '[1]'),
      ...call(1, ''),
      ...call(2, '{"a":'),
      finish,
      receipt,
    )
    expect(content.map(({ input }) => input)).toEqual([
      { INVALID_JSON: '[1]' },
      {},
      { INVALID_JSON: '{"a":' },
    ])
  })

  test('that failed throws its error, whatever came before', async () => {
    expect(messageOf(text('a'), failed, receipt)).rejects.toMatchObject({
      type: 'provider_unavailable',
    })
    expect(
      messageOf(text('a'), { type: 'finish', choice, reason: 'error', native: null }, receipt),
    ).rejects.toMatchObject({ status: 502 })
  })

  test('without parts has no content', async () => {
    expect(await messageOf(finish, receipt)).toMatchObject({ content: [], stop_reason: 'end_turn' })
  })
})
