import { describe, expect, test } from 'bun:test'
import type { TextCall } from '../../../../src/language/call.ts'
import type { Block, Message } from '../../../../src/language/message.ts'
import { buildRequest } from '../../../../src/translation/protocols/openai-chat/request.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'

const callOf = (more: Partial<TextCall>) => buildTextCall({ dialect: 'messages', ...more })
const bodyOf = (more: Partial<TextCall>) => buildRequest(callOf(more), buildEndpoint()).body
const messagesOf = (...messages: Message[]) => bodyOf({ messages }).messages
const user = (...blocks: Block[]): Message => ({ role: 'user', blocks })
const said = (...blocks: Block[]): Message => ({ role: 'assistant', blocks })
const native = (type: string): Block => ({ type: 'other', dialect: 'messages', value: { type } })

describe('a call of Anthropic’s dialect', () => {
  test('trap 57: leaves out the fields that only Anthropic knows', () => {
    const extra = { clear_at: 'x' }
    expect(
      messagesOf({ ...user({ type: 'text', text: 'Hi', extra: { citations: [] } }), extra }),
    ).toEqual([{ role: 'user', content: 'Hi' }])
    expect(
      bodyOf({
        extra: { context_management: {} },
        tools: [{ type: 'function', name: 'a', extra: { defer_loading: true } }],
      }),
    ).toEqual({
      model: 'up-small',
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ type: 'function', function: { name: 'a' } }],
    })
  })

  test('leaves out results of its provider’s own tools, but nothing from the user', () => {
    const searched = said(
      { type: 'text', text: 'Let me see' },
      native('server_tool_use'),
      native('web_search_tool_result'),
    )
    expect(messagesOf(searched)).toEqual([{ role: 'assistant', content: 'Let me see' }])
    expect(() => messagesOf(user(native('search_result')))).toThrow(
      'search_result is content that this model',
    )
  })

  test('is refused if it has a tool that Anthropic runs', () => {
    expect(() =>
      bodyOf({ tools: [{ type: 'other', dialect: 'messages', value: { type: 'bash_20250124' } }] }),
    ).toThrow('tools.0')
  })

  test('sends a plain-text document as text, and any other as a file', () => {
    const file = (file_data: string): Block => ({
      type: 'file',
      file: { file_data, filename: 'a' },
      extra: { context: 'About' },
    })
    expect(
      messagesOf(user(file(`data:text/plain;base64,${Buffer.from('Grüße').toString('base64')}`))),
    ).toEqual([{ role: 'user', content: 'a\n\nAbout\n\nGrüße' }])
    expect(messagesOf(user(file('data:application/pdf;base64,AAAA')))).toEqual([
      {
        role: 'user',
        content: [
          { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a' } },
        ],
      },
    ])
  })

  test('has the reasoning of a message in one piece', () => {
    const detail = (index: number) => ({ type: 'reasoning.text', text: 'x', index })
    const blocks: Block[] = [
      { type: 'reasoning', text: 'a', details: [detail(0)] },
      { type: 'text', text: 'Hi' },
      { type: 'reasoning', text: null, details: [detail(1)] },
      { type: 'reasoning', text: 'b', details: null },
    ]
    expect(messagesOf(said(...blocks))).toMatchObject([
      { content: 'Hi', reasoning: 'a\n\nb', reasoning_details: [detail(0), detail(1)] },
    ])
  })

  test('trap 16: sends the images of a tool’s result after all results', () => {
    const result = (id: string, ...blocks: Block[]): Message => ({
      role: 'tool',
      tool_call_id: id,
      blocks,
    })
    const turns = [
      result(
        'a',
        { type: 'text', text: 'See' },
        { type: 'image', url: 'data:image/png;base64,AAAA' },
      ),
      result('b', { type: 'text', text: 'B' }),
    ]
    expect(messagesOf(...turns)).toMatchObject([
      { role: 'tool', tool_call_id: 'a', content: 'See' },
      { role: 'tool', tool_call_id: 'b', content: 'B' },
      { role: 'user', content: [{ type: 'image_url' }] },
    ])
  })
})

test('a chat client’s own call is sent unchanged', () => {
  const turn: Message = {
    role: 'user',
    blocks: [{ type: 'text', text: 'Hi', extra: { odd: 1 } }],
    extra: { odd: 2 },
  }
  expect(buildRequest(buildTextCall({ messages: [turn] }), buildEndpoint()).body.messages).toEqual([
    { role: 'user', odd: 2, content: [{ type: 'text', text: 'Hi', odd: 1 }] },
  ])
})
