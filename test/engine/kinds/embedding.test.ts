import { describe, expect, test } from 'bun:test'
import { embedding } from '../../../src/engine/kinds/embedding.ts'
import type { EmbeddingInput, EmbeddingPart } from '../../../src/language/embedding.ts'
import { createTextUsage } from '../../../src/language/usage.ts'
import { buildEmbeddingCall, buildEndpoint } from '../../support/call.ts'

const characters = async (texts: string[]) => texts.join('').length
const text = (words: string): EmbeddingInput => ({ type: 'text', text: words })
const tokens = (...given: number[]): EmbeddingInput => ({ type: 'tokens', tokens: given })
const picture: EmbeddingInput = {
  type: 'content',
  blocks: [
    { type: 'text', text: 'abc' },
    { type: 'image', url: 'https://a.example/' },
  ],
}

const START: EmbeddingPart = {
  type: 'start',
  upstream_id: 'e-1',
  system_fingerprint: null,
  service_tier: null,
}
const VECTOR: EmbeddingPart = { type: 'embedding', index: 0, vector: [1] }

function meterOf(inputs: EmbeddingInput[], ...parts: EmbeddingPart[]) {
  const meter = embedding.metering.startMeter(buildEmbeddingCall({ inputs }))
  meter.read(parts)
  return meter
}

describe('the meter of an answer in vectors', () => {
  test('has delivered something, and ended, with the first vector', () => {
    expect(meterOf([text('a')], START)).toMatchObject({
      delivered: false,
      finish: null,
      start: { upstream_id: 'e-1' },
    })
    expect(meterOf([text('a')], START, VECTOR)).toMatchObject({
      delivered: true,
      finish: { reason: 'stop', native: null },
    })
  })

  test('keeps the provider’s count', () => {
    expect(
      meterOf([text('a')], VECTOR, { type: 'usage', usage: createTextUsage(7, 0) }).usage,
    ).toEqual(createTextUsage(7, 0))
  })

  test.each([
    ['texts', [text('ab'), text('c')], 3],
    ['tokens, which are counted already', [tokens(1, 2), tokens(3)], 3],
    ['a text and an image', [picture], 3 + 765],
  ] as const)('estimates %s', async (_name, inputs, expected) => {
    expect((await meterOf([...inputs], VECTOR).estimate(characters)).input.text).toBe(expected)
  })
})

test('URLs are replaced by what was fetched, in a copy of the call', () => {
  const call = buildEmbeddingCall({ inputs: [text('a'), picture] })
  const { listMedia, replaceUrls } = embedding.understanding
  const [elsewhere, here] = ['https://a.example/', 'data:image/png;base64,AA==']
  expect(listMedia(call)).toEqual([{ kind: 'image', url: elsewhere }])
  const moved = replaceUrls(call, new Map([[elsewhere, here]]))
  expect(listMedia(moved)).toEqual([{ kind: 'image', url: here }])
  expect(listMedia(call)).toEqual([{ kind: 'image', url: elsewhere }])
})

test('no output is expected', () => {
  const call = buildEmbeddingCall({ inputs: [text('abcdefgh'), tokens(1, 2)] })
  const { estimateInput, boundOutput, computeLeastOutput } = embedding.costing
  expect(estimateInput(call)).toEqual({ text: 5, audio: 0, video: 0 })
  expect([boundOutput(call, buildEndpoint()), computeLeastOutput(call, buildEndpoint())]).toEqual([
    0, 0,
  ])
})

test('a caller can use a vector, and nothing before it', () => {
  expect([START, VECTOR].map(part => embedding.isMeaningful(part))).toEqual([false, true])
})
