import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  type Json,
  parseObject,
  readObject,
  readObjects,
  readString,
} from '../../../src/base/json.ts'
import type { TextPart } from '../../../src/language/part.ts'
import { collectChatResponse } from '../../../src/translation/dialects/chat/response.ts'
import { collectMessagesResponse } from '../../../src/translation/dialects/messages.ts'
import { collectResponse } from '../../../src/translation/dialects/responses/response.ts'
import { createAnswer, receipt } from '../../support/answer.ts'
import { buildTextCall } from '../../support/call.ts'
import { randomBatches } from '../../support/random-parts.ts'

/* An answer has the same content in every dialect, whatever its parts are. */

/** What is in an answer: its words and refusals, its thinking, and its calls. */
interface Content {
  words: string
  thoughts: string
  calls: { id: unknown; name: unknown; input: unknown }[]
}

const SHAPE = {
  object: 'chat.completion',
  usesText: false,
  hidesReasoning: false,
  usesFunctions: false,
} as const

const READERS: Record<string, (batches: TextPart[][]) => Promise<Content>> = {
  async chat(batches) {
    const { choices } = await collectChatResponse(createAnswer(...batches), SHAPE)
    const { message } = choices[0] as { message: Json }
    return {
      words: `${readString(message.content) ?? ''}|${readString(message.refusal) ?? ''}`,
      thoughts: readString(message.reasoning) ?? '',
      calls: readObjects(message.tool_calls).map(call => {
        const { name, arguments: input } = readObject(call, 'function')
        return { id: call.id, name, input: parseObject(String(input)) }
      }),
    }
  },
  async messages(batches) {
    const { content } = await collectMessagesResponse(createAnswer(...batches), buildTextCall())
    return {
      words: join(content, 'text'),
      thoughts: join(content, 'thinking'),
      calls: content
        .filter(({ type }) => type === 'tool_use')
        .map(({ id, name, input }) => ({ id, name, input })),
    }
  },
  async responses(batches) {
    const call = buildTextCall({ dialect: 'responses' })
    const response = await collectResponse(createAnswer(...batches), call, { input: 'Hi' })
    const items = readObjects(response.output)
    const parts = items.flatMap(({ content }) => readObjects(content))
    const said = parts.filter(({ type }) => type !== 'reasoning_text')
    return {
      words: `${join(said, 'text')}|${join(said, 'refusal')}`,
      thoughts: items
        .flatMap(({ summary, content, type }) =>
          type === 'reasoning' ? [...readObjects(summary), ...readObjects(content)] : [],
        )
        .map(({ text }) => text)
        .join(''),
      calls: items
        .filter(({ type }) => type === 'function_call')
        .map(({ call_id: id, name, arguments: input }) => ({
          id,
          name,
          input: parseObject(String(input)),
        })),
    }
  },
}

const join = (blocks: Json[], name: string): string =>
  blocks.map(block => readString(block[name]) ?? '').join('')

/** The answers that all dialects can express: messages have no pictures, and refuse in words. */
const common = randomBatches.map(batches =>
  batches.map(parts => parts.filter(({ type }) => type !== 'image' && type !== 'refusal-delta')),
)

// Some thinking is joined or divided by dialects, so the order of its words is not compared.
const sorted = (text: string) => [...text].sort().join('')

test('an answer has the same content in every dialect', async () => {
  await fc.assert(
    fc.asyncProperty(common, async batches => {
      const given = [...batches, [receipt]]
      const [chat, messages, responses] = await Promise.all(
        Object.values(READERS).map(read => read(given)),
      )
      expect(responses?.words).toBe(chat?.words ?? 'none')
      expect(`${messages?.words}|`).toBe(chat?.words ?? 'none')
      for (const other of [messages, responses]) {
        expect(other?.calls).toEqual(chat?.calls ?? [])
        expect(sorted(other?.thoughts ?? '')).toBe(sorted(chat?.thoughts ?? 'none'))
      }
    }),
  )
})

test.each(Object.entries(READERS))(
  'others have their turns while %s joins 100,000 pieces',
  async (_, read) => {
    const pieces = Array.from(
      { length: 100_000 },
      (): TextPart => ({ ...CALL, type: 'tool-call-delta', input: ' ' }),
    )
    const parts: TextPart[] = [
      { ...CALL, type: 'tool-call-start', id: 'c', name: 'f' },
      { ...CALL, type: 'tool-call-delta', input: '{' },
      ...pieces,
      { ...CALL, type: 'tool-call-delta', input: '}' },
      { type: 'finish', choice: 0, reason: 'tool_calls', native: null },
    ]
    let turns = 0
    const count = () => {
      turns += 1
      timer = setImmediate(count)
    }
    let timer = setImmediate(count)
    const { calls } = await read([parts, [receipt]])
    clearImmediate(timer)
    expect(calls).toEqual([{ id: 'c', name: 'f', input: {} }])
    expect(turns).toBeGreaterThanOrEqual(20)
  },
)

const CALL = { choice: 0, index: 0 } as const
