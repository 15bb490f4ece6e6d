import { expect, test } from 'bun:test'
import { kinds } from '../../src/engine/kinds.ts'
import type { Kind } from '../../src/language/work.ts'
import { sample as embedding } from '../suites/kind/embedding.ts'
import { sample as image } from '../suites/kind/image.ts'
import { sample as rerank } from '../suites/kind/rerank.ts'
import { sample as speech } from '../suites/kind/speech.ts'
import { sample as text } from '../suites/kind/text.ts'
import { sample as transcription } from '../suites/kind/transcription.ts'
import { sample as video } from '../suites/kind/video.ts'
import { type KindSample, testKind } from '../suites/kind.ts'
import { buildEndpoint, buildImageCall } from '../support/call.ts'

const SAMPLES: { [K in Kind]: KindSample<K> } = {
  text,
  embedding,
  rerank,
  image,
  speech,
  transcription,
  video,
}

const names = Object.keys(kinds) as Kind[]

const testNamed = <K extends Kind>(name: K) => testKind(name, kinds[name], SAMPLES[name])

for (const name of names) testNamed(name)

test('every kind has its own word on the record and for people', () => {
  for (const word of ['apiType', 'outputName'] as const)
    expect(new Set(names.map(name => kinds[name][word])).size).toBe(names.length)
})

test('a picture has at most the tokens of its quality, and those of a model that talks too', () => {
  const bound = (quality: string | undefined, more = {}) =>
    kinds.image.costing.boundOutput(
      buildImageCall({ params: { ...(quality ? { quality } : {}), n: 2 } }),
      buildEndpoint({ output_modalities: ['image'], ...more }),
    )
  expect([bound('low'), bound('medium'), bound('high'), bound(undefined)]).toEqual([
    2 * 1_024,
    2 * 4_096,
    2 * 16_384,
    2 * 16_384,
  ])
  const output_modalities = ['image', 'text']
  expect([
    bound('low', { output_modalities, max_completion_tokens: 9_000 }),
    bound('low', { output_modalities, max_completion_tokens: null }),
  ]).toEqual([2 * 9_000, 2 * 2 * 16_384])
})

test('a model does the work of its output, and of no other kind', () => {
  const modalities = ['text', 'embeddings', 'rerank', 'image', 'speech', 'transcription', 'video']
  const does = modalities.map(modality =>
    names.filter(name => kinds[name].matchesModalities([modality])),
  )
  // A model that computes vectors ranks by them, and one that draws does so in a conversation too.
  expect(does).toEqual([
    ['text'],
    ['embedding', 'rerank'],
    ['rerank'],
    ['text', 'image'],
    ['speech'],
    ['transcription'],
    ['video'],
  ])
})
