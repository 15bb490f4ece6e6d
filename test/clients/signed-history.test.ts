import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions'
import type { Json } from '../../src/base/json.ts'
import { type MediaStage, openMediaStage, PNG } from '../support/media.ts'
import { json } from '../support/upstream.ts'

/*
 * Gemini signs what it has drawn and said, and refuses it back without: with OpenAI's client, which
 * keeps the signatures or loses them.
 */

const NEW = 'google/draws'
const OLD = 'google/draws-older'
const inlineData = { mimeType: 'image/png', data: PNG }
const LOST = 'skip_thought_signature_validator'

let stage: MediaStage

beforeAll(async () => {
  const model = (id: string, name: string) => ({
    ...{ id, output: ['text', 'image'], model: name, providers: [{ protocol: 'gemini' }] },
  })
  stage = await openMediaStage([
    model(NEW, 'gemini-3-pro-image'),
    model(OLD, 'gemini-2.5-flash-image'),
  ])
})
afterAll(() => stage[Symbol.asyncDispose]())

/** Has a picture drawn, and asks for another with the answer as the client keeps it. */
async function drawAgain(model: string, drawn: Json[], keep: (message: Json) => Json) {
  const upstream = stage.upstreamOf(model)
  const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1 }
  upstream.plan(
    json({ candidates: [{ content: { parts: drawn }, finishReason: 'STOP' }], usageMetadata }),
  )
  const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'Draw a cat' }]
  const { choices } = await stage.openai.chat.completions.create({ model, messages })
  const answer = keep(choices[0]?.message as unknown as Json) as never
  await stage.openai.chat.completions.create({
    model,
    messages: [...messages, answer, { role: 'user', content: 'Now a dog' }],
  })
  const sent = upstream.hits.at(-1)?.json as { contents?: Json[] } | undefined
  return sent?.contents?.[1]
}

const SIGNED = [
  { text: 'Here:', thoughtSignature: 's1' },
  { inlineData, thoughtSignature: 's2' },
  { inlineData, thoughtSignature: 's3' },
]
const keepAll = (message: Json) => message
const keepStandard = ({ reasoning_details: _, reasoning: __, ...message }: Json) => message

test('signatures that the client keeps go back where they were', async () => {
  expect(await drawAgain(NEW, SIGNED, keepAll)).toEqual({ role: 'model', parts: SIGNED })
})

test('those that it loses are replaced, on every picture and on what comes first', async () => {
  expect(await drawAgain(NEW, SIGNED, keepStandard)).toEqual({
    role: 'model',
    parts: SIGNED.map(part => ({ ...part, thoughtSignature: LOST })),
  })
})

test('pictures go back over the Responses API too, signed as the client keeps it', async () => {
  const upstream = stage.upstreamOf(NEW)
  upstream.plan(json({ candidates: [{ content: { parts: SIGNED }, finishReason: 'STOP' }] }))
  const ask = { role: 'user' as const, content: 'Draw a cat' }
  const { output } = await stage.openai.responses.create({ model: NEW, input: [ask] })
  const kept = output as never[]
  const lost = output.filter(({ type }) => type !== 'reasoning') as never[]
  for (const [items, signatures] of [
    [kept, SIGNED],
    [lost, SIGNED.map(part => ({ ...part, thoughtSignature: LOST }))],
  ] as const) {
    await stage.openai.responses.create({ model: NEW, input: [ask, ...items, ask] })
    const sent = upstream.hits.at(-1)?.json as { contents?: { parts: Json[] }[] } | undefined
    const parts = sent?.contents?.slice(1, -1).flatMap(content => content.parts)
    expect(parts).toEqual(signatures)
  }
})

test('a text without pictures needs none', async () => {
  expect(await drawAgain(NEW, [{ text: 'No.', thoughtSignature: 's1' }], keepStandard)).toEqual({
    ...{ role: 'model', parts: [{ text: 'No.' }] },
  })
})

test('older models get none', async () => {
  const parts = [{ text: 'Here:' }, { inlineData }]
  expect(await drawAgain(OLD, parts, keepStandard)).toEqual({ role: 'model', parts })
})
