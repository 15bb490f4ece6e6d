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
