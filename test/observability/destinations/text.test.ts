import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import fc from 'fast-check'
import { toReceivedText } from '../../../src/base/printable.ts'
import {
  buildHeaders,
  fillConfig,
  joinUrl,
} from '../../../src/observability/destinations/config.ts'
import { cutText, writeJson } from '../../../src/observability/destinations/text.ts'

const anyText = fc.string({ unit: 'binary', maxLength: 20 })
const anyValue = fc.jsonValue({ stringUnit: 'binary' })
/** UTF-16 units of any kind: halves of pairs, backslashes and the letters of escapes among them. */
const anyUnits = fc
  .array(
    fc.constantFrom(
      ...['\ud83d', '\ude00', '\\', 'u', 'd', '8', '0', '"', 'x', '\n', '\0', '\uffff', '\ufffe'],
    ),
  )
  .map(units => units.join(''))

/** What is a text for every receiver, said by hand. */
const toText = (text: string): string =>
  [...text.toWellFormed()]
    .map(character => (['\0', '\ufffe', '\uffff'].includes(character) ? '\ufffd' : character))
    .join('')

const toWellFormed = (value: unknown): unknown => {
  if (typeof value === 'string') return toText(value)
  if (Array.isArray(value)) return value.map(toWellFormed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [toText(name), toWellFormed(member)]),
  )
}

test('a text of Protocol Buffers is the one that JSON has', () => {
  fc.assert(fc.property(anyUnits, text => expect(toReceivedText(text)).toBe(toText(text))))
})

describe('writeJson', () => {
  test('is JSON.stringify for well-formed values', () => {
    fc.assert(
      fc.property(anyValue, value => {
        const wellFormed = toWellFormed(value)
        expect(writeJson(wellFormed)).toBe(JSON.stringify(wellFormed))
      }),
    )
  })

  test('replaces lone halves of pairs, and nothing else', () => {
    fc.assert(
      fc.property(fc.array(anyUnits), texts => {
        const json = writeJson(texts)
        expect(json.isWellFormed()).toBe(true)
        expect(JSON.parse(json)).toEqual(texts.map(toText))
      }),
      { numRuns: 500 },
    )
  })
})

describe('cutText', () => {
  test('keeps the beginning and cuts no pair', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 1, max: 25 }), (text, most) => {
        const cut = cutText(text.toWellFormed(), most)
        expect(text.toWellFormed().startsWith(cut)).toBe(true)
        expect(cut.isWellFormed()).toBe(true)
        expect(cut.length).toBeLessThanOrEqual(most)
        expect(cut.length).toBeGreaterThanOrEqual(Math.min(text.length, most) - 1)
      }),
    )
  })
})

describe('a config', () => {
  test.each([
    ['https://a.example', 'https://a.example/v1/traces'],
    ['https://a.example///', 'https://a.example/v1/traces'],
    ['https://a.example/v1/traces/', 'https://a.example/v1/traces'],
    ['https://a.example/base', 'https://a.example/base/v1/traces'],
  ])('%s is joined to %s', (base, url) => {
    expect(joinUrl(base, '/v1/traces')).toBe(url)
  })

  test('has its defaults where it has no value', () => {
    const schema = Type.Object({
      a: Type.String(),
      b: Type.Optional(Type.String({ default: 'B' })),
      c: Type.Optional(Type.String()),
    })
    expect(fillConfig(schema, { a: '1' })).toEqual({ a: '1', b: 'B' })
    expect(fillConfig(schema, { a: '1', b: '2', c: '3' })).toEqual({ a: '1', b: '2', c: '3' })
  })

  test('has each header once, in lower case, the own ones above the others', () => {
    expect(buildHeaders({ 'X-A': '1', 'x-a': '2', Own: '3' }, { own: '4' })).toEqual({
      'x-a': '2',
      own: '4',
    })
    expect(buildHeaders(undefined, { own: '4' })).toEqual({ own: '4' })
  })
})
