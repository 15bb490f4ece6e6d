import { describe, expect, test } from 'bun:test'
import { parseExact } from '../../src/base/json.ts'
import { parseLargeJson } from '../../src/base/large-json.ts'
import { readThreadCpu } from '../support/cpu.ts'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'

const cases = LONG ? 10_000 : 30

/** Parses both ways. Undefined where a text is refused. */
async function parseBoth(text: string): Promise<[unknown, unknown]> {
  const whole = (() => {
    try {
      return JSON.stringify(parseExact(text))
    } catch {
      return undefined
    }
  })()
  const inTurns = await parseLargeJson(text).then(
    value => JSON.stringify(value),
    () => undefined,
  )
  return [inTurns, whole]
}

describe('parseLargeJson', () => {
  const LONG = 'x'.repeat(200_000)
  test.each([
    [`[${'1,'.repeat(60_000)}2]`],
    [`{"a":"${LONG}","__proto__":{"b":["${LONG}",123456789012345678901]}}`],
    [`{"a":1,"a":2,"b":"${'\\u00e9\\n\\"'.repeat(50_000)}","1":0}`],
    [`${' '.repeat(200_000)}[ "${LONG}" , [ ] , { } ]${'\n'.repeat(100_000)}`],
    [`${'['.repeat(4_000)}"${LONG}"${']'.repeat(4_000)}`],
    [`"${LONG}"`],
    ...[
      '[1,]',
      '[,1]',
      '[1 2]',
      '{"a" 1}',
      '{"a":1,}',
      '[1}',
      '{,}',
      '["a" "b"]',
      '[1]]',
      '[01]',
    ].flatMap(wrong => [[wrong + ' '.repeat(100_000)], [wrong.replace('1', `"${LONG}"`)]]),
    [`[${'1,'.repeat(100_000)}]`],
    [`["${LONG}",]`],
    [`["${LONG}"`],
    [`"${LONG}`],
    [`["${LONG}\n"]`],
    ['['.repeat(200_000)],
    ['{"a":'.repeat(200_000)],
  ])('reads what parseExact reads, and refuses what it refuses: %.40s', async text => {
    const [inTurns, whole] = await parseBoth(text)
    expect(inTurns === whole).toBe(true)
  })

  test('refuses a list of more than 65,536 items', async () => {
    expect(await parseLargeJson(`[${'1,'.repeat(64 * 1024 - 1)}2]`)).toHaveLength(64 * 1024)
    await expect(parseLargeJson(`[${'1,'.repeat(64 * 1024)}2]`)).rejects.toThrow('too long a list')
  })

  test(`agrees with parseExact on random texts (${cases} cases, seed ${SEED})`, async () => {
    const random = createSeededRandom(SEED)
    const below = (most: number) => Math.floor(random() * most)
    const text = (): string => JSON.stringify('aé"\\\n\u2028😀'.repeat(below(below(2_500))))
    const value = (depth: number): string => {
      const blank = ' \n'.repeat(below(3))
      const members = () => Array.from({ length: below(depth * 3) }, () => value(depth - 1))
      const kinds = [
        () => text(),
        () => String((random() - 0.5) * 10 ** below(30)),
        () => 'true,null,1e400,-0,9007199254740993'.split(',')[below(5)] ?? '',
        () => `[${members().join(`${blank},`)}]`,
        () => `{${members().map(one => `${text()}${blank}:${one}`)}}`,
      ]
      return blank + (kinds[depth === 0 ? below(3) : 3 + below(2)]?.() ?? '') + blank
    }
    for (let i = 0; i < cases; i++) {
      let json = value(4)
      if (i % 3 === 0) {
        const at = below(json.length)
        json = json.slice(0, at) + ('[]{},:"\\'[below(8)] ?? '') + json.slice(at + below(2))
      }
      const [inTurns, whole] = await parseBoth(json)
      expect([i, inTurns === whole]).toEqual([i, true])
    }
  }, 1_800_000)
})

/** Returns how long others waited at most, in milliseconds of the processor. */
async function measureLag(work: () => Promise<unknown>): Promise<number> {
  let [longest, last, isOver] = [0, readThreadCpu(), false]
  const look = () => {
    longest = Math.max(longest, readThreadCpu() - last)
    last = readThreadCpu()
    if (!isOver) setImmediate(look)
  }
  setImmediate(look)
  await work().catch(() => undefined)
  isOver = true
  await new Promise(resolve => setImmediate(resolve))
  return longest
}

const SIZE = LONG ? 63_000_000 : 8_000_000
const fill = (piece: string) => piece.repeat(Math.floor(SIZE / piece.length))

describe(`a hostile answer of ${SIZE / 1_000_000} MB`, () => {
  test.each([
    ['numbers', () => `[${fill('1,')}1]`],
    ['empty objects', () => `[${fill('{},')}1]`],
    ['small lists', () => `[${fill('[[[]]],')}1]`],
    ['members', () => `{${fill('"ab":0,')}"a":1}`],
    ['different members', () => `{${Array.from({ length: SIZE / 16 }, (_, i) => `"m${i}":{}`)}}`],
    ['one text', () => `["${fill('a')}"]`],
    ['one text of escapes', () => `["${fill('\\u0041')}"]`],
    ['long integers', () => `[${fill('12345678901234567890,')}1]`],
    ['one number', () => `[${fill('1')}]`],
    ['blanks', () => `[${fill(' ')}]`],
    ['open brackets', () => fill('[')],
    [
      'deep lists with long texts',
      () => `${'["a",'.repeat(300)}"${fill('b')}"${']'.repeat(4_000)}`,
    ],
  ])(
    'of %s lets nothing else wait for 250 ms',
    async (_, build) => {
      const json = build()
      json.charCodeAt(json.length - 1)
      expect(await measureLag(() => parseLargeJson(json))).toBeLessThan(250)
    },
    60_000,
  )
})
