import fc from 'fast-check'
import type { TextPart } from '../../src/language/part.ts'
import { finish } from './answer.ts'

/** Random answers of text in every legal form. */

const choice = 0
const words = fc.string({ maxLength: 6 })
const someWords = fc.string({ minLength: 1, maxLength: 6 })

const text = fc
  .record({ text: words, block: fc.option(fc.nat(2), { nil: undefined }) })
  .map(({ text, block }): TextPart[] => [
    { type: 'text-delta', choice, text, ...(block === undefined ? {} : { block }) },
  ])

const refusal = someWords.map((said): TextPart[] => [{ type: 'refusal-delta', choice, text: said }])

const FORMATS = ['anthropic-claude-v1', 'openai-responses-v1', 'xai-responses-v1', 'unknown']

const reasoning = fc
  .record({
    said: words,
    type: fc.constantFrom('text', 'summary', 'encrypted', 'none'),
    format: fc.constantFrom(...FORMATS),
    index: fc.nat(2),
    signature: fc.boolean(),
  })
  .map(({ said, type, format, index, signature }): TextPart[] => {
    const entries = {
      text: { type: 'reasoning.text', text: said, ...(signature ? { signature: 's' } : {}) },
      summary: { type: 'reasoning.summary', summary: said },
      encrypted: { type: 'reasoning.encrypted', data: said },
    }
    const details = type === 'none' ? [] : [{ ...entries[type as 'text'], format, index }]
    return [{ type: 'reasoning-delta', choice, text: type === 'encrypted' ? '' : said, details }]
  })

const image = fc
  .constantFrom('data:image/png;base64,AAAA', 'https://example.com/a.png')
  .map((url): TextPart[] => [{ type: 'image', choice, url }])

const source = fc.record({ title: words, end: fc.nat(9) }).map(({ title, end }): TextPart[] => [
  {
    type: 'annotation',
    choice,
    annotation: {
      type: 'url_citation',
      url_citation: { url: 'https://example.com', title, start_index: 0, end_index: end },
    },
  },
])

/** Calls whose arguments arrive in pieces, one after the other or in turns. */
const calls = (first: number) =>
  fc
    .record({
      inputs: fc.array(fc.dictionary(fc.string({ maxLength: 3 }), words, { maxKeys: 2 }), {
        minLength: 1,
        maxLength: 3,
      }),
      isInterleaved: fc.boolean(),
    })
    .map(({ inputs, isInterleaved }): TextPart[] => {
      const whole = inputs.map((input, i) => listCallParts(first + i, JSON.stringify(input)))
      if (!isInterleaved) return whole.flat()
      return [0, 1, 2].flatMap(step => whole.flatMap(parts => parts[step] ?? []))
    })

const listCallParts = (index: number, input: string): TextPart[] => [
  { type: 'tool-call-start', choice, index, id: `call_${index}`, name: 'get' },
  { type: 'tool-call-delta', choice, index, input: input.slice(0, 1) },
  { type: 'tool-call-delta', choice, index, input: input.slice(1) },
]

/** The parts of random answers, without their receipt. */
export const randomParts = fc
  .array(fc.oneof(text, text, refusal, reasoning, reasoning, image, source), { maxLength: 12 })
  .chain(said =>
    fc.tuple(fc.constant(said), calls(0), calls(10), fc.nat(said.length), fc.boolean()),
  )
  .map(([said, first, second, at, hasCalls]): TextPart[] => [
    ...said.slice(0, at).flat(),
    ...(hasCalls ? first : []),
    ...said.slice(at).flat(),
    ...(hasCalls ? second : []),
    finish,
  ])

/** Divides parts into batches at random places. */
export const randomBatches = fc
  .tuple(randomParts, fc.array(fc.boolean(), { maxLength: 40 }))
  .map(([parts, cuts]) => {
    const batches: TextPart[][] = [[]]
    for (const [i, part] of parts.entries()) {
      if (cuts[i]) batches.push([])
      batches.at(-1)?.push(part)
    }
    return batches
  })
