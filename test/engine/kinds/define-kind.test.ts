import { describe, expect, test } from 'bun:test'
import { defineKind } from '../../../src/engine/kinds/define-kind.ts'
import type {
  EmbeddingCall,
  EmbeddingInput,
  EmbeddingPart,
} from '../../../src/language/embedding.ts'
import type { Block } from '../../../src/language/message.ts'
import type { TextSegment } from '../../../src/language/text-segment.ts'
import { createTextUsage } from '../../../src/language/usage.ts'
import { buildEmbeddingCall, buildEndpoint } from '../../support/call.ts'

/** A kind with only the required fields; it borrows the calls and parts of embeddings. */
const contents = {
  readContents({ inputs }: EmbeddingCall): Block[][] {
    return inputs.map(input => (input.type === 'content' ? input.blocks : []))
  },
  replaceContents: (call: EmbeddingCall, given: Block[][]): EmbeddingCall => ({
    ...call,
    inputs: given.map(blocks => ({ type: 'content', blocks })),
  }),
}
const NAMED = { apiType: 'toys', outputName: 'toys' }
const toy = defineKind<'embedding'>({ ...NAMED, understanding: contents })

const saying = (...blocks: Block[]): EmbeddingInput => ({ type: 'content', blocks })
const text = (words: string): Block => ({ type: 'text', text: words })
const PICTURE: Block = { type: 'image', url: 'https://a.example/' }

const call = buildEmbeddingCall({ inputs: [saying(text('abc'), PICTURE), saying(text('defghi'))] })
const BEGUN = { upstream_id: 't-1', system_fingerprint: null, service_tier: null }
const START: EmbeddingPart = { type: 'start', ...BEGUN }
const TOY: EmbeddingPart = { type: 'embedding', index: 0, vector: [1] }
const counted = (usage = createTextUsage(7, 0)): EmbeddingPart => ({ type: 'usage', usage })
const characters = async (texts: string[]) => texts.join('').length

function meterOf(kind: typeof toy, ...parts: EmbeddingPart[]) {
  const meter = kind.metering.startMeter(call)
  meter.read(parts)
  return meter
}

describe('a kind with only the required fields', () => {
  test('is supported by models of its modality', () => {
    expect([['toys', 'text'], ['text'], []].map(toy.matchesModalities)).toEqual([
      true,
      false,
      false,
    ])
  })

  test('takes calls unchanged, for every endpoint', () => {
    const { understanding } = toy
    const endpoint = buildEndpoint({ supported_parameters: new Set() })
    expect(understanding.checkEndpoint(call, endpoint)).toBe(true)
    expect(understanding.supportsPreferred(call, endpoint)).toBe(true)
    expect(understanding.listIgnored(call, endpoint)).toEqual([])
    expect(understanding.fitToEndpoint(call, endpoint)).toBe(call)
    expect(understanding.applyVariant(call, '')).toBe(call)
    expect(understanding.removeNames(call)).toBe(call)
    expect(understanding.offersTools(call)).toBe(false)
    expect(understanding.identifyConversation).toBeNull()
  })

  test('has the URLs in its calls fetched', () => {
    const { listMedia, replaceUrls } = toy.understanding
    expect(listMedia(call)).toEqual([{ kind: 'image', url: 'https://a.example/' }])
    const moved = replaceUrls(call, new Map([['https://a.example/', 'data:,x']]))
    expect(listMedia(moved)).toEqual([{ kind: 'image', url: 'data:,x' }])
    expect(listMedia(call)).toEqual([{ kind: 'image', url: 'https://a.example/' }])
  })

  test('charges for its input, and nothing else', () => {
    const { costing } = toy
    const prices = { prompt: 1n, completion: 1n, per_image: 1n }
    expect(costing.estimateInput(call)).toEqual({ text: 1 + 765 + 2, audio: 0, video: 0 })
    expect(costing.boundInput(call)).toEqual({ text: 1 + 4_784 + 2, audio: 0, video: 0 })
    expect([costing.estimateUnits(call), costing.boundUnits(call, buildEndpoint())]).toEqual([
      {},
      {},
    ])
    expect(costing.boundOutput(call, buildEndpoint())).toBe(0)
    expect(costing.computeLeastOutput(call, buildEndpoint())).toBe(0)
    expect(costing.needsOutputLimit(call, buildEndpoint())).toBe(false)
    expect(costing.limitOutput(call, 1)).toBe(call)
    expect(costing.priceOutputToken(call, prices)).toBe(0n)
    expect(costing.priceSurcharge(call, prices)).toBe(0n)
  })

  test('has its texts rewritten, each list read as one', async () => {
    const read: TextSegment[] = []
    const rewritten = await toy.filtering.rewriteTexts(call, async passage => {
      read.push(passage)
      return passage.pieces.map(piece => piece.toUpperCase())
    })
    expect(read.map(({ pieces }) => pieces)).toEqual([['abc'], ['https://a.example/'], ['defghi']])
    expect(rewritten.inputs[1]).toEqual(saying(text('DEFGHI')))
    expect(call.inputs[1]).toEqual(saying(text('defghi')))
    expect(toy.filtering.filterAnswer).toBeUndefined()
  })
})

describe('the meter of an answer that comes whole', () => {
  test('has delivered something, and ended, with the first part of its content', () => {
    const before = meterOf(toy, START, counted())
    expect(before).toMatchObject({ delivered: false, finish: null, start: { upstream_id: 't-1' } })
    const after = meterOf(toy, START, TOY)
    expect([after.delivered, after.finish]).toEqual([true, { reason: 'stop', native: null }])
  })

  test('keeps the provider’s count, or else counts the input', async () => {
    expect(meterOf(toy, TOY).usage).toBeNull()
    expect(meterOf(toy, TOY, counted()).usage).toEqual(createTextUsage(7, 0))
    expect(await meterOf(toy, TOY).estimate(characters)).toEqual(createTextUsage(9 + 765, 0))
  })

  const drawing = defineKind<'embedding'>({
    ...NAMED,
    understanding: contents,
    costing: { estimateUnits: () => ({ image: 4 }) },
    metering: { countUnits: (_, delivered) => ({ image: delivered.length }) },
  })

  test('adds the delivered units, counted or not', async () => {
    expect(meterOf(drawing, TOY, TOY, counted()).usage?.units).toEqual({ image: 2 })
    expect((await meterOf(drawing, TOY).estimate(characters)).units).toEqual({ image: 1 })
  })

  test('keeps units that the provider counts', () => {
    const usage = { ...createTextUsage(7, 0), units: { image: 3, input_image: 1 } }
    expect(meterOf(drawing, TOY, counted(usage)).usage?.units).toEqual({ image: 3, input_image: 1 })
  })

  test('takes the expected units if a kind does not count them', () => {
    const { costing } = drawing
    const lazy = defineKind<'embedding'>({ ...NAMED, understanding: contents, costing })
    expect(meterOf(lazy, TOY, counted()).usage?.units).toEqual({ image: 4 })
    expect(lazy.costing.boundUnits(call, buildEndpoint())).toEqual({ image: 4 })
  })
})
