import { describe, expect, test } from 'bun:test'
import type { TextPart } from '../../../../src/language/part.ts'
import { createFreeReceipt, createTextUsage } from '../../../../src/language/usage.ts'
import {
  type ChatShape,
  collectChatResponse,
} from '../../../../src/translation/dialects/chat/response.ts'
import { ChatStreamWriter } from '../../../../src/translation/dialects/chat.ts'
import { createAnswer } from '../../../support/answer.ts'

interface Chunk {
  id: string
  created: number
  choices: { delta: { role?: string; content?: string }; finish_reason: string | null }[]
  usage?: object
}

const SHAPE: ChatShape = {
  object: 'chat.completion',
  usesText: false,
  hidesReasoning: false,
  usesFunctions: false,
}

/** Returns the events of these parts: chunks, and the text `[DONE]`. */
function eventsOf(...batches: TextPart[][]): (Chunk | '[DONE]')[] {
  const stream = new ChatStreamWriter(
    { id: 'gen-1', created: 1_772_600_767, model: 'acme/small', provider: 'Local' },
    SHAPE,
  )
  const written = batches.map(batch => stream.write(batch)).join('')
  return written
    .split('\n\n')
    .filter(Boolean)
    .map(event => event.slice('data: '.length))
    .map(data => (data === '[DONE]' ? data : JSON.parse(data)))
}

const text = (said: string): TextPart => ({ type: 'text-delta', choice: 0, text: said })
const FINISH: TextPart = { type: 'finish', choice: 0, reason: 'stop', native: 'stop' }
const usage: TextPart = { type: 'usage', usage: createTextUsage(10, 5) }
const receipt: TextPart = { type: 'receipt', receipt: createFreeReceipt(createTextUsage(10, 5)) }
const START: TextPart = {
  type: 'start',
  upstream_id: 'x',
  system_fingerprint: null,
  service_tier: null,
}

describe('a streamed answer', () => {
  const events = eventsOf(
    [START, usage, text('Hel')],
    [text('lo'), usage, FINISH],
    [usage, receipt],
  )
  const chunks = events.filter(event => event !== '[DONE]')

  test('traps 70, 71: has one usage chunk before [DONE], whatever the provider sends', () => {
    expect(chunks.filter(chunk => chunk.usage)).toEqual([chunks.at(-1) as Chunk])
    expect(chunks.at(-1)?.choices).toEqual([])
    expect(events.at(-1)).toBe('[DONE]')
  })

  test('trap 68: has one finish reason, in its last chunk with choices', () => {
    const reasons = chunks.flatMap(chunk => chunk.choices.map(choice => choice.finish_reason))
    expect(reasons).toEqual([null, null, null, 'stop'])
  })

  test('trap 79: has the role in the first delta only', () => {
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
    expect(chunks.filter(chunk => chunk.choices[0]?.delta.role)).toHaveLength(1)
  })

  test('trap 80: has the same id and creation time in all chunks', () => {
    expect(new Set(chunks.map(chunk => `${chunk.id} ${chunk.created}`))).toEqual(
      new Set(['gen-1 1772600767']),
    )
  })
})

test.each([
  [{ url: 'https://a.example' }, { title: '', start_index: 0, end_index: 0 }],
  [{ url: 'https://a.example', title: 'A', start_index: 1, end_index: 2, content: 'c' }, {}],
])('a source %j has all that OpenAI’s clients require', async (url_citation, more) => {
  const annotation = { type: 'url_citation', url_citation }
  const complete = { type: 'url_citation', url_citation: { ...url_citation, ...more } }
  const parts: TextPart[] = [START, text('Hi'), { type: 'annotation', choice: 0, annotation }]
  const events = eventsOf(parts, [FINISH], [usage, receipt])
  expect(JSON.stringify(events)).toContain(`"annotations":[${JSON.stringify(complete)}]`)
  const { choices } = await collectChatResponse(createAnswer(parts, [FINISH], [receipt]), SHAPE)
  expect(choices).toMatchObject([{ message: { annotations: [complete] } }])
})
