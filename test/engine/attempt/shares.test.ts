import { describe, expect, test } from 'bun:test'
import { Cancellation } from '../../../src/base/cancellation.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { openShares, readToldBound, tellsBound } from '../../../src/engine/attempt/shares.ts'
import { createImpossibleUsage, createTextUsage } from '../../../src/language/usage.ts'

const refuse = (message: string, status = 400) =>
  new GatewayError('invalid_request', 'The provider refused the request as invalid', {
    status,
    reason: { code: null, message },
  })

describe('the bound that a server tells', () => {
  // What servers say, of 200 items, and how many they are asked for next.
  test.each([
    ['batch size 200 > maximum allowed batch size 32', 32],
    ["Invalid 'input': array too long. Expected an array with maximum length 64, but got 200.", 64],
    ['invalid request: total number of texts must be at most 96 - received 200', 96],
    ['* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch', 100],
    ['The batch size limit is 128. Your batch size is 200', 128],
    ['Too many inputs. The max number of inputs is 16. We hope to increase the number.', 16],
    ['#/texts: expected maximum item count: 96, found: 200', 96],
    ['Too many inputs in request, split into more batches.', 100],
    ['Too many tokens overall, split into more batches.', 100],
    ['Requested 412345 tokens, max 300000 tokens per request', 100],
    ['Input list too large', 100],
  ])('%s: %d', (message, expected) => {
    expect(readToldBound(refuse(message), 200)).toBe(expected)
    expect(tellsBound(refuse(message))).toBe(true)
  })

  test.each(['Invalid model', 'dimensions: expected at least 1', 'input: expected a text', ''])(
    'is not in %j',
    message => expect(readToldBound(refuse(message), 200)).toBeUndefined(),
  )

  test('is none for a single item, of a server that has failed, and where content is refused', () => {
    const message = 'batch size 1 > maximum allowed batch size 0'
    expect(readToldBound(refuse(message), 1)).toBeUndefined()
    expect(readToldBound(refuse(message, 503), 200)).toBeUndefined()
    const refused = new GatewayError('content_policy_violation', 'Refused', {
      reason: { code: null, message: 'At most two texts' },
    })
    expect(tellsBound(refused)).toBe(false)
  })

  test('is always fewer than were asked for, and at least one', () => {
    for (let asked = 2; asked < 300; asked++)
      for (const named of [0, 1, asked - 1, asked, asked + 1, 99_999]) {
        const told = readToldBound(refuse(`at most ${named} inputs`), asked) ?? 0
        expect(told >= 1 && told < asked).toBe(true)
      }
  })
})

describe('the answers to several requests', () => {
  const start = (id: string) => ({ type: 'start', id, model: 'm' }) as never
  const vector = (index: number) => ({ type: 'vector', index }) as never
  const usage = (inputTokens: number) =>
    ({ type: 'usage', usage: { input: { tokens: inputTokens }, output: {} } }) as never
  const merging = {
    needsAll: true,
    place: (part: never, share: number) =>
      ({ ...(part as object), index: share * 10 + (part as { index: number }).index }) as never,
  }
  const open = (answers: never[][]) =>
    openShares<'embedding', never[]>(
      answers,
      new Cancellation(),
      async first => ({ first, rest: null }) as never,
      merging,
    )

  test('are one answer: one beginning, all of the content in order, the sum of what was counted', async () => {
    const { first, rest } = await open([
      [start('a'), vector(0), usage(1)],
      [start('b'), vector(0), vector(1), usage(2)],
    ])
    expect(rest).toBeNull()
    const [begun, ...others] = first as { type: string }[]
    expect(begun).toEqual(start('a'))
    expect(others).toMatchObject([vector(0), vector(10), vector(11), usage(3)])
  })

  test('have an impossible count where one of them has: what it did is estimated, and not free', async () => {
    const impossible = { type: 'usage', usage: createImpossibleUsage() } as never
    const counted = { type: 'usage', usage: createTextUsage(7, 0) } as never
    for (const answers of [
      [
        [vector(0), impossible],
        [vector(0), counted],
      ],
      [
        [vector(0), counted],
        [vector(0), impossible],
      ],
    ]) {
      const { first } = await open(answers)
      expect((first as unknown[]).at(-1)).toMatchObject({ usage: { isImpossible: true } })
    }
  })

  test('count nothing where one of them does not', async () => {
    const { first } = await open([[vector(0), usage(1)], [vector(0)]])
    expect(first as unknown[]).toEqual([vector(0), vector(10)])
  })
})
