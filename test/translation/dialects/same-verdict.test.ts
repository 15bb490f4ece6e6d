import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/base/errors.ts'
import type { Json } from '../../../src/base/json.ts'
import type { Answer } from '../../../src/language/answer.ts'
import type { FinishReason, TextPart } from '../../../src/language/part.ts'
import { collectChatResponse } from '../../../src/translation/dialects/chat/response.ts'
import { streamChatEvents } from '../../../src/translation/dialects/chat.ts'
import {
  collectMessagesResponse,
  streamMessagesEvents,
} from '../../../src/translation/dialects/messages.ts'
import { collectResponse } from '../../../src/translation/dialects/responses/response.ts'
import { streamResponseEvents } from '../../../src/translation/dialects/responses.ts'
import { createAnswer, failed, receipt, start, text } from '../../support/answer.ts'
import { READERS, readEvents, type Verdict } from '../../support/any-server.ts'
import { buildTextCall } from '../../support/call.ts'
import { DOORS, type Door } from '../../support/doors.ts'

/* One answer has one verdict at every door, whole and streamed: its words, its calls, its end. */

const SHAPE = {
  object: 'chat.completion',
  usesText: false,
  hidesReasoning: false,
  usesFunctions: false,
} as const
const call = buildTextCall()
const responsesCall = buildTextCall({ dialect: 'responses' })
const BODY = { input: 'Hi' }

const WHOLE: Record<Door, (answer: Answer<'text'>) => Promise<unknown>> = {
  chat: answer => collectChatResponse(answer, SHAPE),
  messages: answer => collectMessagesResponse(answer, call),
  responses: answer => collectResponse(answer, responsesCall, BODY),
}
const STREAMED: Record<Door, (answer: Answer<'text'>) => AsyncIterator<string>> = {
  chat: answer => streamChatEvents(answer, SHAPE),
  messages: answer => streamMessagesEvents(answer, call),
  responses: answer => streamResponseEvents(answer, responsesCall, BODY),
}

async function readWhole(door: Door, batches: TextPart[][]): Promise<Verdict> {
  try {
    const answer = await WHOLE[door](createAnswer(...batches))
    return READERS[door].whole(JSON.parse(JSON.stringify(answer)) as Json)
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown
    return { text: '', calls: [], end: 'error' }
  }
}

async function readStreamed(door: Door, batches: TextPart[][]): Promise<Verdict> {
  const events = STREAMED[door](createAnswer(...batches))
  let raw = ''
  for (let step = await events.next(); !step.done; step = await events.next()) raw += step.value
  return READERS[door].events(readEvents(raw))
}

const choice = 0
const begin = (index: number, name = 'f'): TextPart => ({
  type: 'tool-call-start',
  choice,
  index,
  id: `call_${index}`,
  name,
})
const input = (index: number, piece: string): TextPart => ({
  type: 'tool-call-delta',
  choice,
  index,
  input: piece,
})
const end = (reason: FinishReason, native: string | null = null): TextPart => ({
  type: 'finish',
  choice,
  reason,
  native,
})
const thought: TextPart = { type: 'reasoning-delta', choice, text: 'Hm.', details: [] }

const ANSWERS: [what: string, parts: TextPart[], verdict: Verdict][] = [
  ['words', [text('Hel'), text('lo'), end('stop')], { text: 'Hello', calls: [], end: 'stop' }],
  [
    'words that were cut at the bound',
    [text('Hel'), end('length', 'max_tokens')],
    { text: 'Hel', calls: [], end: 'length' },
  ],
  [
    'words that a filter ended',
    [text('Hel'), end('content_filter', 'sensitive')],
    { text: 'Hel', calls: [], end: 'content_filter' },
  ],
  [
    'a call',
    [begin(0), input(0, '{"a":'), input(0, '1}'), end('tool_calls', 'stop')],
    { text: '', calls: [['f', '{"a":1}']], end: 'tool_calls' },
  ],
  [
    'a call without arguments',
    [begin(0), input(0, '{}'), end('tool_calls')],
    { text: '', calls: [['f', '{}']], end: 'tool_calls' },
  ],
  [
    'words and thinking between the arguments of a call',
    [begin(0), input(0, '{"a"'), text('So.'), thought, input(0, ':1}'), end('tool_calls')],
    { text: 'So.', calls: [['f', '{"a":1}']], end: 'tool_calls' },
  ],
  [
    'calls whose arguments come in turns',
    [
      begin(0),
      begin(1, 'g'),
      input(0, '{"a":'),
      input(1, '{"b":'),
      input(0, '1}'),
      input(1, '2}'),
      end('tool_calls'),
    ],
    {
      text: '',
      calls: [
        ['f', '{"a":1}'],
        ['g', '{"b":2}'],
      ],
      end: 'tool_calls',
    },
  ],
  [
    'words, a call, words and a call',
    [
      text('A'),
      begin(0),
      input(0, '{}'),
      text('B'),
      begin(1, 'g'),
      input(1, '{"b":2}'),
      end('tool_calls'),
    ],
    {
      text: 'AB',
      calls: [
        ['f', '{}'],
        ['g', '{"b":2}'],
      ],
      end: 'tool_calls',
    },
  ],
]

/** Answers that failed: what a client has by then differs, but none takes it for a whole one. */
const FAILURES: [what: string, parts: TextPart[]][] = [
  ['an end that is an error', [text('Hello'), end('error', 'abort')]],
  [
    'an end that is not known',
    [text('Hello'), { ...end('error', 'new'), isUnknown: true } as TextPart],
  ],
  ['a failure behind words', [text('Hello'), failed]],
  ['a failure within arguments', [begin(0), input(0, '{"a":'), failed]],
  ['a failure behind a call', [begin(0), input(0, '{}'), failed]],
]

describe.each(DOORS)('%s', door => {
  describe.each(ANSWERS)('%s', (_, parts, verdict) => {
    test('whole', async () => {
      expect(await readWhole(door, [[start, ...parts], [receipt]])).toEqual(verdict)
    })

    test('streamed, all at once and one by one', async () => {
      expect(await readStreamed(door, [[start, ...parts], [receipt]])).toEqual(verdict)
      const single = [start, ...parts, receipt].map(part => [part])
      expect(await readStreamed(door, single)).toEqual(verdict)
    })
  })

  test.each(FAILURES)('%s', async (_, parts) => {
    const batches = [[start, ...parts], [receipt]]
    expect((await readWhole(door, batches)).end).toBe('error')
    expect((await readStreamed(door, batches)).end).toBe('error')
  })
})
