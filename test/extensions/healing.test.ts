import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { healText } from '../../src/extensions/healing/heal.ts'
import { LONGEST_HEALED, openHealer } from '../../src/extensions/healing.ts'
import { LONG } from '../support/random.ts'

// The deadline is not what is tested: the machine may be busy.
const healer = openHealer({ timeoutMs: 120_000 })
afterAll(() => healer.close())

const SCHEMA = {
  type: 'object',
  properties: { a: { type: 'number' }, pattern: { type: 'string', pattern: '^(a+)+$' } },
  required: ['a'],
  additionalProperties: false,
}
const heal = (text: string, schema: unknown = null) => healText({ text, schema })

describe('a text that should be JSON', () => {
  test.each<[string, string, string[]]>([
    ['```json\n{"a": 1}\n```', '{"a": 1}', ['extracted']],
    ['Sure! {"a": 1} Is that all?', '{"a": 1}', ['extracted']],
    ['[1] says: {"a": 1}', '{"a": 1}', ['extracted']],
    ['{"a": 1,}', '{"a": 1}', ['repaired']],
    ['{a: 1}', '{"a": 1}', ['repaired']],
    ["{'a': 1", '{"a": 1}', ['repaired']],
    ['{"a": 1', '{"a": 1}', ['repaired']],
    ['```\n{"a": 1\n```', '{"a": 1}', ['extracted', 'repaired']],
    ['"{\\"a\\": 1}"', '{"a": 1}', ['unescaped']],
    ['Use {braces}: {"a": 1}', '{"a": 1}', ['extracted']],
    ['{"a": 12345678901234567890}.', '{"a": 12345678901234567890}', ['extracted']],
  ])('%j is mended', (text, mended, steps) => {
    expect(heal(text, SCHEMA)).toEqual({
      outcome: 'mended',
      text: mended,
      steps,
      isChecked: true,
    } as never)
  })

  test.each(['{"a":1}', ' {"a": 1}\n'])('%j needs nothing', text => {
    expect(heal(text, SCHEMA)).toEqual({ outcome: 'valid' })
  })

  test.each([
    ['I cannot do that.', 'no-json'],
    ['', 'no-json'],
    ['{"a": "x"}', 'schema'],
    ['{"b": 1,}', 'schema'],
    ['{"a": 1, "c": 2,}', 'schema'],
    ['['.repeat(100_000), 'too-deep'],
    ['{"a":'.repeat(100_000), 'too-deep'],
  ])('%j cannot be mended', (text, reason) => {
    expect(heal(text, SCHEMA)).toEqual({ outcome: 'unmended', reason } as never)
  })

  test('without a schema it has to be an object', () => {
    expect(heal('[1, 2,]')).toEqual({ outcome: 'unmended', reason: 'schema' })
    expect(heal('[1] {"a": 1,}')).toMatchObject({ outcome: 'mended' })
  })

  test('patterns of a schema are not run, and a schema that cannot be read checks nothing', () => {
    const text = `{"a": 1, "pattern": "${'a'.repeat(50)}!",}`
    expect(heal(text, SCHEMA)).toMatchObject({ outcome: 'mended', isChecked: true })
    for (const schema of [{ $ref: '#/nowhere' }, { $ref: '#' }])
      expect(heal('{"a": 1,}', schema)).toMatchObject({ outcome: 'mended', isChecked: false })
  })

  test('what is valid stays, and what was broken by a comma, a fence or prose comes back', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), value => {
        const text = JSON.stringify(value)
        expect(heal(text)).toEqual({ outcome: 'valid' })
        const fenced = heal(`Here:\n\`\`\`json\n${text}\n\`\`\``)
        expect(fenced).toMatchObject({ outcome: 'mended' })
        expect('text' in fenced && JSON.parse(fenced.text)).toEqual(JSON.parse(text))
      }),
      { numRuns: 300 },
    )
  })

  test('any text is answered', () => {
    const pieces = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      '"',
      "'",
      ',',
      ':',
      '\\',
      'a',
      '1',
      '\n',
      '`',
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 60 }), parts => {
        const healed = heal(parts.join(''))
        if (healed.outcome === 'mended') expect(() => JSON.parse(healed.text)).not.toThrow()
      }),
      { numRuns: LONG ? 10_000 : 500 },
    )
  })
})

describe('the healer', () => {
  test('answers from its Worker', async () => {
    const healed = await healer.heal({ text: '{"a": 1,}', schema: SCHEMA })
    expect(healed).toMatchObject({ outcome: 'mended', text: '{"a": 1}' })
  })

  test('does not look at a text that is too long', async () => {
    const text = `{${' '.repeat(LONGEST_HEALED)}`
    expect(await healer.heal({ text, schema: null })).toEqual({
      outcome: 'unmended',
      reason: 'too-long',
    })
  })

  test('gives up in time: repairing some texts takes for ever', async () => {
    // A Worker that never answers stands for one that is busy.
    const silent = new Worker(URL.createObjectURL(new Blob(['self.onmessage = () => {}'])))
    const impatient = openHealer({ startWorker: () => silent, timeoutMs: 20 })
    expect(await impatient.heal({ text: '{', schema: null })).toEqual({
      outcome: 'unmended',
      reason: 'too-slow',
    })
    impatient.close()
  })

  test('a text whose repair would take minutes ends with its Worker', async () => {
    const impatient = openHealer({ timeoutMs: 300 })
    const text = `{${"'".repeat(1_900_000)}`
    expect(await impatient.heal({ text, schema: null })).toEqual({
      outcome: 'unmended',
      reason: 'too-slow',
    })
    impatient.close()
  })
})
