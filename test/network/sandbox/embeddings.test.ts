import { describe, expect, test } from 'bun:test'
import { answerEmbeddings } from '../../../src/network/sandbox/other-kinds.ts'

const vectors = async (input: unknown, more = {}) =>
  (await answerEmbeddings({ input, ...more })).data.map(({ embedding }) => embedding)
const near = (a: number[] = [], b: number[] = []) =>
  a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0)

describe('the sandbox’s vectors', () => {
  test('are the same each time, of length 1 and eight dimensions', async () => {
    const [first = [], second = []] = await vectors(['The sky is blue', 'The sky is blue'])
    expect(first).toEqual(second)
    expect(first).toHaveLength(8)
    expect(Math.hypot(...first)).toBeCloseTo(1)
    expect(await vectors('The sky is blue')).toEqual([first])
  })

  test('lie nearer to each other for texts that share words', async () => {
    const [sky, skies, sums] = await vectors(
      ['The sky is blue', 'Blue is the sky today', 'Compound interest accrues'],
      { dimensions: 64 },
    )
    expect(near(sky, skies)).toBeGreaterThan(near(sky, sums))
  })

  test('have as many dimensions as requested', async () => {
    expect((await vectors('a', { dimensions: 3 }))[0]).toHaveLength(3)
  })

  test('exist for tokens and contents too', async () => {
    expect(await vectors([1, 2])).toHaveLength(1)
    expect(await vectors([[1], [2]])).toHaveLength(2)
    expect(await vectors([{ content: [{ type: 'text', text: 'a' }] }])).toHaveLength(1)
    expect((await vectors('…'))[0]?.every(Number.isFinite)).toBe(true)
  })

  test('come with the count of prompt tokens', async () => {
    expect(
      (await answerEmbeddings({ input: ['Hello there'] })).usage.prompt_tokens,
    ).toBeGreaterThan(0)
  })
})
