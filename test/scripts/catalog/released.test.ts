import { describe, expect, test } from 'bun:test'
import { RELEASED } from '../../../scripts/catalog/released.data.ts'
import { ReleaseDays } from '../../../scripts/catalog/released.ts'
import { readBuiltIn } from '../../../src/resources/models/built-in.ts'

/** Returns the day of a model from these sources. */
function dayOf(slug: string, told: string[] = [], names: string[] = [], tellingOf = slug) {
  const days = new ReleaseDays('2026-11-21')
  for (const day of told) days.add(tellingOf, day)
  for (const id of names) days.addNames(tellingOf, { id, priced: undefined })
  return days.find(slug)
}

describe('the day of a release', () => {
  test('is the slug’s, then the table’s, then the most frequent, then the first in a name', () => {
    const told = ['2025-01-03', '2025-01-02', '2025-01-02']
    const names = ['x-20250105', 'x-2025-01-04']
    expect(dayOf('acme/x-2024-08-06', told, names)).toBe('2024-08-06')
    expect(dayOf('openai/gpt-4', told, names)).toBe('2023-03-14')
    expect(dayOf('acme/x', told, names)).toBe('2025-01-02')
    expect(dayOf('acme/x', [], names)).toBe('2025-01-04')
    expect(dayOf('acme/x')).toBeUndefined()
  })

  test('is the first of equally frequent days', () => {
    expect(dayOf('acme/x', ['2025-02-01', '2025-01-01'])).toBe('2025-01-01')
  })

  test('is never in the future, nor an invalid day', () => {
    expect(
      dayOf(
        'acme/x',
        ['2026-11-22', '2026-01', '2025-13-01', '1970-01-01', 'soon'],
        ['x-20261231', 'x-4096', 'x-20259999'],
      ),
    ).toBeUndefined()
  })

  test('is the same for the free variant', () => {
    expect(dayOf('acme/x:free', ['2025-01-01'], [], 'acme/x')).toBe('2025-01-01')
    expect(dayOf('acme/x', ['2025-01-01'], [], 'acme/x:free')).toBe('2025-01-01')
    expect(dayOf('acme/x', [], ['x-20250101'], 'acme/x:free')).toBe('2025-01-01')
  })
})

test('the table has existing models, each once, with the catalogue’s days', () => {
  const { rows } = readBuiltIn()
  const wrong = Object.entries(RELEASED).filter(
    ([slug, day]) => (rows.get(slug) ?? rows.get(`${slug}:free`))?.created !== day,
  )
  expect(wrong).toEqual([])
})
