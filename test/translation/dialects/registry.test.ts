import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import {
  DIALECTS,
  type DialectName,
  DOOR_DIALECTS,
  PRESET_DIALECTS,
  TEXT_DIALECTS,
} from '../../../src/language/dialect.ts'
import {
  dialects,
  doorDialects,
  findDialect,
  findPresetForm,
  presetForms,
} from '../../../src/translation/dialects/registry.ts'
import { type Sample, testDialect } from '../../suites/dialect.ts'

const SAMPLES = join(import.meta.dir, '../../suites/dialect')

for (const dialect of [...dialects, ...doorDialects]) {
  const { sample }: { sample: Sample } = await import(join(SAMPLES, `${dialect.name}.ts`))
  testDialect(dialect, sample)
}

describe('the registry', () => {
  test('has every dialect that the CLI names, each once', () => {
    expect(dialects.map(({ name }) => name)).toEqual([...DIALECTS])
    expect(doorDialects.map(({ name }) => name)).toEqual([...DOOR_DIALECTS])
  })

  test.each(['path', 'operation'] as const)('has no two dialects of the same %s', what => {
    const said = dialects.map(dialect => JSON.stringify(dialect[what]))
    expect(new Set(said).size).toBe(dialects.length)
  })

  test('has one preset form for every text dialect', () => {
    const names: string[] = presetForms.map(({ name }) => name)
    expect(names).toEqual([...PRESET_DIALECTS])
    expect(Object.keys(TEXT_DIALECTS)).toEqual([...PRESET_DIALECTS, 'gemini'])
  })

  test('has that form under the name and the path of the dialect', () => {
    for (const { name, path, preset = { name, path } } of dialects)
      expect<unknown[]>([preset.name, preset.path]).toEqual([name, path])
  })

  test('finds an entry by its name', () => {
    expect(findDialect('messages').path).toBe('/messages')
    expect(findPresetForm('responses').path).toBe('/responses')
  })

  test('lists the known names if an entry is not found', () => {
    const names = DIALECTS.join(', ')
    expect(() => findDialect('latin' as DialectName)).toThrow(`expected one of ${names}`)
  })
})
