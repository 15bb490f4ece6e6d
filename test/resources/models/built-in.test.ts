import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createBuiltInReader,
  openSignedCatalog,
  readBuiltIn,
} from '../../../src/resources/models/built-in.ts'
import { createSigner } from '../../support/signer.ts'

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

describe('a signed catalogue', () => {
  const [mine, other] = [createSigner(), createSigner()]
  const data = JSON.stringify({ generated: '2100-01-01', sources: [], aliases: {}, models: [] })
  const good = mine.sign(data)
  const signature = (text: string) => /"signature":"[^"]+"/.exec(text)?.[0] ?? ''
  const openText = (text: string, keys = [other.key, mine.key]) =>
    openSignedCatalog(Buffer.from(text), keys)

  test('is opened with any of the keys', () => {
    expect(openText(good)).toMatchObject({ generated: '2100-01-01', isInstalled: true })
  })

  test.each([
    ['was changed', good.replace('2100-01-01', '2100-01-02'), 'its checksum is wrong'],
    ['was cut', good.slice(0, -1), 'its checksum is wrong'],
    ['is of another signer', createSigner().sign(data), 'signed by none of'],
    [
      'has the signature of other data',
      good.replace(signature(good), signature(mine.sign('{}'))),
      'signed by none of',
    ],
    ['has no signature', good.replace(signature(good), '"signature":""'), 'signed by none of'],
    ['is not signed', data, 'no signed catalogue'],
    ['has another form', good.replace('"catalog":1', '"catalog":2'), 'no signed catalogue'],
    ['is empty', '', 'no signed catalogue'],
    ['is no catalogue', mine.sign('[]'), 'holds no catalogue'],
  ])('that %s is refused', (_, text, why) => {
    expect(() => openText(text)).toThrow(why)
  })

  test('is refused without keys', () => {
    expect(() => openText(good, [])).toThrow('catalog.public_keys')
  })

  test('that cannot be read is a problem, and one that is not there is none', () => {
    const read = (file: string) => createBuiltInReader({ file, keys: [mine.key] })()
    expect(read(directory).problem).toContain(directory)
    expect(read(join(directory, 'none')).problem).toBeNull()
  })

  test('that is older than the built-in one is not read', () => {
    const file = join(directory, 'catalog.signed')
    writeFileSync(file, mine.sign(data.replace('2100', '2000')))
    const read = createBuiltInReader({ file, keys: [mine.key] })
    expect(read()).toMatchObject({ isInstalled: false, problem: null })
    writeFileSync(file, good)
    expect(createBuiltInReader({ file, keys: [mine.key] })().isInstalled).toBe(true)
    expect(createBuiltInReader({ file, keys: [other.key] })()).toMatchObject({
      isInstalled: false,
      problem: expect.stringContaining('signed by none of'),
    })
  })
})
