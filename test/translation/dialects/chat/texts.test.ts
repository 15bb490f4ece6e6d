import { beforeAll, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { type Json, readObjects } from '../../../../src/base/json.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import {
  type ChatShape,
  collectChatResponse,
} from '../../../../src/translation/dialects/chat/response.ts'
import { ChatStreamWriter, completions } from '../../../../src/translation/dialects/chat.ts'
import { createAnswer, finish, text } from '../../../support/answer.ts'
import { buildTextCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

/* An answer as a text has no place but its text: what a message has beside it is said in words. */

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const SHAPE: ChatShape = {
  object: 'text_completion',
  usesText: true,
  hidesReasoning: false,
  usesFunctions: false,
}
const choice = 0
const HEADER = { id: 'g', created: 1, model: 'm', provider: 'p' }

const collect = async (parts: TextPart[]): Promise<Json | undefined> => {
  const { choices } = await collectChatResponse(createAnswer(parts), SHAPE)
  return JSON.parse(JSON.stringify(choices[0]))
}

function stream(parts: TextPart[]): Json[] {
  const events = new ChatStreamWriter(HEADER, SHAPE).write(parts).trim().split('\n\n')
  return events.flatMap(event => readObjects(JSON.parse(event.slice('data: '.length)).choices))
}

test.each<[string, TextPart, string]>([
  ['a refusal', { type: 'refusal-delta', choice, text: 'No.' }, 'No.'],
  ['a picture', { type: 'image', choice, url: 'https://a.example' }, '![image](https://a.example)'],
  ['a sound', { type: 'audio-delta', choice, audio: { data: 'AAAA', transcript: 'La' } }, 'La'],
])('%s is in the text, whole and streamed', async (_, part, said) => {
  expect(await collect([part, finish])).toMatchObject({ text: said })
  const streamed = stream([part, finish])
  expect(streamed.map(one => one.text).join('')).toBe(said)
})

const entry = (token: string, logprob: number, others: Record<string, number>) => ({
  ...{ token, logprob, bytes: null },
  top_logprobs: Object.entries(others).map(([token, logprob]) => ({ token, logprob, bytes: null })),
})
const ANSWER: TextPart[] = [
  { ...text('Hi'), logprobs: { content: [entry('Hi', -1, { Hi: -1, Ho: -2 })] } } as TextPart,
  {
    ...text(' you'),
    logprobs: { content: [entry(' y', -3, { ' y': -3 }), entry('ou', -4, {})] },
  } as TextPart,
  finish,
]

test('logprobs have the form of texts, whole and streamed', async () => {
  expect((await collect(ANSWER))?.logprobs).toEqual({
    tokens: ['Hi', ' y', 'ou'],
    token_logprobs: [-1, -3, -4],
    top_logprobs: [{ Hi: -1, Ho: -2 }, { ' y': -3 }, {}],
    text_offset: [0, 2, 4],
  })
  expect(stream(ANSWER).map(({ logprobs }) => logprobs)).toMatchObject([
    { tokens: ['Hi'], text_offset: [0] },
    { tokens: [' y', 'ou'], text_offset: [2, 4] },
    null,
  ] as never)
})

test.each([
  [{ logprobs: 3 }, { logprobs: true, top_logprobs: 3 }],
  [{ logprobs: 0 }, { logprobs: true, top_logprobs: 0 }],
  [{ logprobs: true }, { logprobs: true }],
])('%j asks for %j, as providers take it', (asked, params) => {
  const { id, origin } = buildTextCall()
  const body = { model: 'acme/small', prompt: 'Hi', ...asked } as never
  const call = completions.toCall(gateway, getOperator(gateway), body, {
    ...{ id, origin, session_id: null, betas: [] },
  })
  expect(call.kind === 'text' && call.params).toEqual(params)
})
