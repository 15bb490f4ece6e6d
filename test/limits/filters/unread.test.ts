import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Json } from '../../../src/base/json.ts'
import { runAtOnce } from '../../../src/base/turns.ts'
import { type FilterRule, openFilters } from '../../../src/limits/filters.ts'
import { LONG } from '../../support/random.ts'

/*
 * The last gate reads every string of a value as its receiver does, wherever it stands: in lists,
 * as a name, beside names that look like something else.
 */

const RUNS = LONG ? 10_000 : 300
const WORD = 'falconcodename'
const CARD = 4111111111111111

const openGate = async () =>
  (
    await openFilters(
      [{ pattern: WORD, label: 'X' }, { slug: 'credit-card' }].map(
        rule => ({ guardrail_id: 'g', scope: 'key', action: 'redact', ...rule }) as FilterRule,
      ),
    )
  ).getInputFilters('system')

/** What may stand in a request, of which some must not leave it. */
const words = fc.constantFrom(
  WORD,
  `a ${WORD} b`,
  `ｆａｌｃｏｎ${WORD.slice(6)}`,
  `fal\u200bcon${WORD.slice(6)}`,
  'user',
  'text',
  'type',
  'data',
  'signature',
  'Hi',
  '__proto__',
  'constructor',
  '',
)
const { value: values } = fc.letrec(tie => ({
  value: fc.oneof(
    { maxDepth: 4 },
    words,
    fc.constantFrom(1, CARD, -CARD, true, null),
    fc.array(tie('value'), { maxLength: 4 }),
    fc
      .array(fc.tuple(words, tie('value')), { maxLength: 4 })
      .map(members => Object.fromEntries(members)),
  ),
}))

/** Lists the strings of a value, names included, and its long numbers. */
const listTexts = (value: unknown): string[] =>
  Array.isArray(value)
    ? value.flatMap(listTexts)
    : typeof value === 'object' && value !== null
      ? Object.entries(value as Json).flatMap(([name, member]) => [name, ...listTexts(member)])
      : [String(value)]

const isForbidden = (text: string) =>
  text.normalize('NFKC').replaceAll('\u200b', '').includes(WORD) || text === String(CARD)

/** The shape of a value without its texts. */
const sketch = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sketch)
    : typeof value === 'object' && value !== null
      ? Object.values(value).map(sketch)
      : typeof value

test('nothing forbidden stays in a value, and nothing else changes', async () => {
  const gate = await openGate()
  fc.assert(
    fc.property(values, body => {
      const { value, found } = runAtOnce(gate?.filterUnread({ body }) as never) as {
        value: { body: unknown }
        found: unknown[]
      }
      const texts = listTexts(value.body)
      expect(texts.filter(isForbidden)).toEqual([])
      const forbidden = listTexts(body).filter(isForbidden)
      expect(found.length > 0).toBe(forbidden.length > 0)
      if (forbidden.length === 0) expect(value.body).toBe(body)
      else if (texts.length === listTexts(body).length)
        expect(shapeOf(value.body)).toEqual(shapeOf(body))
    }),
    { numRuns: RUNS },
  )
})

/** Without numbers, which become texts where they are redacted. */
const shapeOf = (value: unknown) => JSON.stringify(sketch(value)).replaceAll('"number"', '"string"')
