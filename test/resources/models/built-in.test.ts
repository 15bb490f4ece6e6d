import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createBuiltInReader, readBuiltIn } from '../../../src/resources/models/built-in.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

describe('the built-in catalogue', () => {
  test('is read once', () => {
    const read = createBuiltInReader()
    const first = read()
    expect(read() === first).toBe(true)
    expect(first.rows.size).toBeGreaterThan(100)
  })

  test.each([['{"models": ['], ['{}'], ['null']])(
    'of a checkout that was damaged (%j) names its file',
    text => {
      const file = join(directory, 'models.data.json')
      writeFileSync(file, text)
      expect(() => readBuiltIn(file)).toThrow(
        new Error(`${file}: the built-in catalogue cannot be read`),
      )
    },
  )
})
