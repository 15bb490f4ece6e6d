import { describe, expect, spyOn, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import fc from 'fast-check'
import { parseBody, parseBodyInSteps, releaseBytes } from '../../src/base/body.ts'
import { parseExact } from '../../src/base/json.ts'
import { runAtOnce } from '../../src/base/turns.ts'

const Body = Type.Object({}, { additionalProperties: true })
const write = (value: unknown) => new TextEncoder().encode(JSON.stringify(value))
const nest = (depth: number): unknown => (depth === 0 ? 1 : [nest(depth - 1)])

/** Texts of what ends or escapes a string, and of what counts outside of one. */
const texts = fc
  .array(fc.constantFrom('"', '\\', '[', '{', ',', 'a', ' '.repeat(70), '\n', 'é', '漢'), {
    maxLength: 200,
  })
  .map(units => units.join(''))

describe('a body', () => {
  test('of any texts is read as it was written', () => {
    fc.assert(
      fc.property(fc.array(texts, { maxLength: 5 }), list => {
        expect(parseBody(Body, write({ list }))).toEqual({ list })
      }),
      { numRuns: 300 },
    )
  })

  test('is refused for its depth behind any text, and not for brackets within one', () => {
    fc.assert(
      fc.property(texts, text => {
        expect(() => parseBody(Body, write({ [text]: text, deep: nest(128) }))).toThrow('nesting')
        expect(parseBody(Body, write({ [text]: text, deep: nest(127) }))).toBeDefined()
        const long = JSON.stringify([text.repeat(60), nest(5_000)])
        if (long.length > 10_000) expect(() => parseExact(long)).toThrow('too deep')
      }),
      { numRuns: 300 },
    )
  })

  test.each([
    ['bytes', Uint8Array.prototype, (json: string) => parseBody(Body, Buffer.from(json))],
    ['text', String.prototype, (json: string) => parseExact(json)],
  ])('of quotes is not searched for each of them: %s', (_, prototype, parse) => {
    const json = JSON.stringify({ text: '"'.repeat(20_000) })
    const search = spyOn(prototype as unknown as { indexOf: () => number }, 'indexOf')
    try {
      parse(json)
      expect(search.mock.calls.length).toBeLessThan(1_000)
    } finally {
      search.mockRestore()
    }
  })
})

test('bytes that were released have given their memory back; those of others have not', () => {
  const own = write({ a: 1 }).slice()
  releaseBytes(own)
  expect(own.length).toBe(0)
  const shared = new Uint8Array(8)
  const view = shared.subarray(2, 4)
  releaseBytes(view)
  expect(view.length).toBe(2)
})

describe('a body that is parsed in steps', () => {
  const Named = Type.Object({ name: Type.Number() }, { additionalProperties: true })
  const read = (parse: () => unknown) => {
    try {
      return parse()
    } catch (thrown) {
      return String(thrown)
    }
  }
  test.each([
    '{"name":1,"a":[1,"b"]}',
    '{"name":1,"big":12345678901234567890}',
    '{"name":12345678901234567890}',
    '{"name":"x"}',
    '{"name":1',
    '',
    '"\\u0000"',
  ])('is what it is at once: %s', text => {
    const encode = () => new TextEncoder().encode(text)
    const bytes = encode()
    const inSteps = read(() => runAtOnce(parseBodyInSteps(Named, bytes)))
    expect(inSteps).toEqual(read(() => parseBody(Named, encode())))
    if (text !== '') expect(bytes).toHaveLength(0)
  })

  test('lets others have their turn before it is parsed, checked and used', () => {
    const steps = parseBodyInSteps(Named, write({ name: 1 }))
    const ends = [steps.next(), steps.next(), steps.next(), steps.next()].map(({ done }) => done)
    expect(ends).toEqual([false, false, false, true])
  })
})
