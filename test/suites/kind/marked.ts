import fc from 'fast-check'
import type { Block } from '../../../src/language/message.ts'

/** Stands in every text that may have been typed. The suite gives each a number of its own. */
export const MARK = '⟦#⟧'

/** Texts of any characters, with a mark in each. */
export const texts: fc.Arbitrary<string> = fc
  .string({ unit: 'grapheme', maxLength: 12 })
  .map(text => `${text}${MARK}`)

/** Values of a shape that the gateway does not know, with a marked text. */
export const values: fc.Arbitrary<Record<string, unknown>> = fc.record({
  type: fc.constant('hologram'),
  depth: fc.array(fc.oneof(fc.integer(), fc.boolean(), fc.constant(null)), { maxLength: 2 }),
  note: texts,
})

/** URLs that are read, because they may say something, and data that is not. */
const addresses = (media_type: string): fc.Arbitrary<string> =>
  fc.constantFrom(`https://a.example/${MARK}`, `data:${media_type};base64,AAAA`)

const textBlocks = fc.record(
  { type: fc.constant('text' as const), text: texts, extra: values },
  { requiredKeys: ['type', 'text'] },
)
const images = fc.record(
  {
    type: fc.constant('image' as const),
    url: addresses('image/png'),
    detail: fc.constantFrom('low', 'high'),
    extra: values,
  },
  { requiredKeys: ['type', 'url'] },
)
const files = fc.record({
  type: fc.constant('file' as const),
  file: fc.record(
    {
      filename: texts,
      file_data: fc.oneof(
        addresses('application/pdf'),
        fc.constantFrom(`data:text/plain,a note ${MARK}`, `data:application/json,["${MARK}"]`),
      ),
      file_id: fc.constant('file-1'),
    },
    { requiredKeys: [] },
  ),
})
const audio = fc.record({
  type: fc.constant('audio' as const),
  data: fc.nat(1_000).map(length => 'A'.repeat(length * 4)),
  format: fc.constantFrom('wav', 'mp3', 'pcm16'),
})
const videos = fc.record(
  { type: fc.constant('video' as const), url: addresses('video/mp4'), extra: values },
  { requiredKeys: ['type', 'url'] },
)
const toolCalls = fc.record(
  {
    type: fc.constant('tool-call' as const),
    id: fc.constant('call_1'),
    name: fc.constant('get_weather'),
    input: texts.map(city => JSON.stringify({ city })),
    extra: values,
  },
  { requiredKeys: ['type', 'id', 'name', 'input'] },
)
const reasoning = fc.record({
  type: fc.constant('reasoning' as const),
  text: fc.option(texts),
  details: fc.option(
    fc.array(
      fc.oneof(
        fc.record({
          type: fc.constant('reasoning.text'),
          text: texts,
          signature: fc.constant('signed'),
        }),
        fc.record({ type: fc.constant('reasoning.summary'), summary: texts }),
        fc.constant({ type: 'reasoning.encrypted', data: 'AAAA' }),
      ),
      { maxLength: 3 },
    ),
  ),
})
const refusals = fc.record({ type: fc.constant('refusal' as const), text: texts })
const others = fc.record({
  type: fc.constant('other' as const),
  dialect: fc.constantFrom('chat' as const, 'messages' as const),
  value: values,
})

/** Blocks of everything that a user may send. */
export const mediaBlocks: fc.Arbitrary<Block> = fc.oneof(textBlocks, images, files, audio, videos)

/** Blocks of every type. */
export const blocks: fc.Arbitrary<Block> = fc.oneof(
  mediaBlocks,
  toolCalls,
  reasoning,
  refusals,
  others,
)
