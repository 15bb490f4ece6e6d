import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/core/errors.ts'
import { openEvents } from '../../../src/core/events.ts'
import { Cancellation } from '../../../src/core/kernel/cancellation.ts'
import { randomIds } from '../../../src/core/kernel/ids.ts'
import { Secret } from '../../../src/core/kernel/secret.ts'
import { printable } from '../../../src/core/kernel/words.ts'

const NOW = new Date('2026-03-04T05:06:07.089Z')
const drawn = <T>(count: number, draw: () => T) => Array.from({ length: count }, draw)

describe('ids', () => {
  const ids = randomIds()

  test('a generation’s id is its second and 20 letters or digits (wire reference C.5)', () => {
    for (const id of drawn(1_000, () => ids.generation(NOW))) expect(id).toMatch(/^gen-1772600767-[0-9A-Za-z]{20}$/)
  })

  test('a hundred thousand of them are all different, and those of one moment sort by their making', () => {
    const made = drawn(100_000, () => ids.generation(NOW))
    expect(new Set(made).size).toBe(made.length)
    const fresh = randomIds()
    const few = drawn(1_000, () => fresh.generation(NOW))
    expect(few.toSorted()).toEqual(few)
  })

  test('a secret is 64 hexadecimal digits, never the same', () => {
    const secrets = drawn(1_000, () => ids.secret())
    for (const secret of secrets) expect(secret).toMatch(/^[0-9a-f]{64}$/)
    expect(new Set(secrets).size).toBe(secrets.length)
  })

  test('uuids sort by their making', () => {
    const made = drawn(1_000, () => ids.uuid())
    expect(made.toSorted()).toEqual(made)
  })
})

describe('Secret', () => {
  test('shows itself to nobody, and opens by reveal', () => {
    const secret = new Secret('sk-secret')
    const shown = [
      `${secret}`,
      JSON.stringify({ secret }),
      Bun.inspect(secret),
      Bun.inspect({ nested: [secret] }),
      Object.values(secret).join(),
    ]
    for (const text of shown) expect(text).not.toContain('sk-secret')
    expect(secret.reveal()).toBe('sk-secret')
  })
})

describe('printable', () => {
  test('keeps what can be read, in every script', () => {
    for (const text of ['plain', 'é 日本 עברית 😀', '« – »', '']) expect(printable(text)).toBe(text)
  })

  test('marks controls, line breaks and marks of direction', () => {
    expect(printable('a\u001b[2Jb\n\r\t\u0000\u007f\u009b\u202e\u2066\u200b\ufeff\u2028')).toBe(`a\uFFFD[2Jb${'\uFFFD'.repeat(11)}`)
  })
})

describe('Cancellation', () => {
  const reason = (message: string) => new GatewayError('timeout', message)

  test('tells its listener once, with the first reason', () => {
    const told: string[] = []
    const cancellation = new Cancellation()
    cancellation.listen(({ message }) => told.push(message))
    cancellation.cancel(reason('first'))
    cancellation.cancel(reason('second'))
    expect([told, cancellation.reason?.message]).toEqual([['first'], 'first'])
  })

  test('tells a listener that comes too late at once, and one that has left nothing', () => {
    const told: string[] = []
    const cancellation = new Cancellation()
    cancellation.listen(() => told.push('left'))
    cancellation.listen(null)
    cancellation.cancel(reason('x'))
    cancellation.listen(() => told.push('late'))
    expect(told).toEqual(['late'])
  })
})

describe('events', () => {
  test('reach every listener in order, whatever another does with them', () => {
    const events = openEvents()
    const told: string[] = []
    events.on('store.failing', () => told.push('first'))
    events.on('store.failing', () => {
      throw new Error('mine')
    })
    events.on('store.failing', () => told.push('last'))
    events.publish('store.failing', { error: 'x' })
    events.publish('generation.finished', {} as never)
    expect(told).toEqual(['first', 'last'])
  })
})
