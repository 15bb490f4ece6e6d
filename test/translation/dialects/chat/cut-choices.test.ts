import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import {
  type ChatShape,
  collectChatResponse,
} from '../../../../src/translation/dialects/chat/response.ts'
import { ChatStreamWriter } from '../../../../src/translation/dialects/chat.ts'
import { createAnswer } from '../../../support/answer.ts'

/* A failure in the middle of an answer marks the choices that it has cut, and no other. */

const SHAPE: ChatShape = {
  object: 'chat.completion',
  usesText: false,
  hidesReasoning: false,
  usesFunctions: false,
}
const ERROR: TextPart = {
  type: 'error',
  error: new GatewayError('provider_unavailable', 'Provider returned error'),
}

const text = (choice: number): TextPart => ({ type: 'text-delta', choice, text: 'Hi' })
const finish = (choice: number): TextPart => ({
  type: 'finish',
  choice,
  reason: 'stop',
  native: 'stop',
})

type Reasons = [index: number, reason: string][]

/** Returns the finish reasons of a streamed answer, in order. */
function streamReasons(parts: TextPart[], shape: ChatShape): Reasons {
  const writer = new ChatStreamWriter({ id: 'g', created: 1, model: 'm', provider: 'p' }, shape)
  const chunks = writer.write(parts).trim().split('\n\n')
  return chunks.flatMap(chunk =>
    JSON.parse(chunk.slice('data: '.length)).choices.flatMap(
      ({ index, finish_reason: reason }: { index: number; finish_reason: string | null }) =>
        reason === null ? [] : [[index, reason]],
    ),
  )
}

/** Returns the finish reasons of a whole answer, and `!` behind those with an error. */
async function collectReasons(parts: TextPart[], shape: ChatShape): Promise<Reasons> {
  const { choices } = await collectChatResponse(createAnswer(parts), shape)
  return choices.map(({ index, finish_reason, error }) => [
    Number(index),
    `${finish_reason}${error ? '!' : ''}`,
  ])
}

describe.each([
  ['messages', SHAPE],
  ['texts', { ...SHAPE, object: 'text_completion', usesText: true } as const],
])('an answer of %s that is cut', (_, shape) => {
  const cases: [name: string, parts: TextPart[], streamed: Reasons, whole: Reasons][] = [
    [
      'in its second choice: the first stays finished',
      [text(0), text(1), finish(0)],
      [
        [0, 'stop'],
        [1, 'error'],
      ],
      [
        [0, 'stop'],
        [1, 'error!'],
      ],
    ],
    [
      'in both choices: each is marked',
      [text(0), text(1)],
      [
        [0, 'error'],
        [1, 'error'],
      ],
      [
        [0, 'error!'],
        [1, 'error!'],
      ],
    ],
    [
      'behind its only choice: that one is marked',
      [text(0), finish(0)],
      [
        [0, 'stop'],
        [0, 'error'],
      ],
      [[0, 'error!']],
    ],
  ]
  test.each(cases)('%s', async (_name, parts, streamed, whole) => {
    expect(streamReasons([...parts, ERROR], shape)).toEqual(streamed)
    expect(await collectReasons([...parts, ERROR], shape)).toEqual(whole)
  })

  test('before any choice: the first is marked', () => {
    expect(streamReasons([ERROR], shape)).toEqual([[0, 'error']])
  })
})
