import { expect, test } from 'bun:test'
import { replaceNativeBlocks } from '../../../../src/engine/kinds/text/understanding.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { Block, Message } from '../../../../src/language/message.ts'

const native = (value: object): Block =>
  ({ type: 'other', dialect: 'messages', value }) as unknown as Block
const createCall = (messages: Message[], dialect = 'messages') =>
  ({ dialect, messages }) as unknown as TextCall
const say = (role: 'user' | 'assistant', ...blocks: Block[]) => ({ role, blocks }) as Message
const text = (words: string): Block => ({ type: 'text', text: words })
const replace = (...messages: Message[]) => replaceNativeBlocks(createCall(messages)).messages

test.each([
  [{ type: 'compaction', content: 'Before' }, [text('Before')]],
  [
    {
      ...{ type: 'search_result', title: 'Page', source: 'https://a' },
      content: [{ type: 'text', text: 'Found' }],
    },
    [text('Page\nhttps://a\nFound')],
  ],
  [{ type: 'tool_reference', tool_name: 'look' }, [text('look')]],
  [
    {
      ...{ type: 'document', title: 'Letter', context: 'Old' },
      source: {
        type: 'content',
        content: [
          { type: 'text', text: 'Dear' },
          { type: 'image', source: { type: 'url', url: 'https://a/b.png' } },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } },
          { type: 'image', source: { type: 'file', file_id: 'f' } },
        ],
      },
    },
    [
      text('Letter\nOld\nDear'),
      { type: 'image', url: 'https://a/b.png' } as Block,
      { type: 'image', url: 'data:image/png;base64,AA==' } as Block,
    ],
  ],
])('what has words says them: %j', (value, blocks) => {
  expect(replace(say('user', text('Hi'), native(value)))).toEqual([
    say('user', text('Hi'), ...blocks),
  ])
})

test('what a provider’s own tools did is left out, with a turn that says nothing else', () => {
  const use = native({ type: 'server_tool_use', name: 'web_search' })
  expect(replace(say('assistant', use, text('So')), say('assistant', use))).toEqual([
    say('assistant', text('So')),
  ])
})

test('anything else of the user stays', () => {
  const upload = native({ type: 'container_upload', file_id: 'f' })
  expect(replace(say('user', upload))).toEqual([say('user', upload)])
})

test('a call of another API, and one without such blocks, is the same call', () => {
  const plain = createCall([say('user', text('Hi'))])
  expect(replaceNativeBlocks(plain)).toBe(plain)
  const other = createCall([say('user', native({ type: 'compaction', content: 'a' }))], 'chat')
  expect(replaceNativeBlocks(other)).toBe(other)
})
