import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../../src/core/errors.ts'
import type { HeldCall } from '../../../src/core/ledger/ledger.ts'
import { openHoldJournal } from '../../../src/core/store/hold-journal.ts'
import { PAYER } from '../../support/generation.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-holds-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let data: string
beforeEach(() => {
  data = mkdtempSync(join(root, 'data-'))
})

const held = (id: string, more: Partial<HeldCall> = {}): HeldCall => ({
  ...PAYER,
  id,
  request_id: `req “${id}”\n`,
  created_at: '2026-03-04T05:06:07.000Z',
  api_type: 'completions',
  model: 'acme/small',
  streamed: true,
  byok: false,
  nanos: 2n ** 62n,
  spent: 5n,
  ...more,
})

const file = () => join(data, 'holds.log')

describe('the journal of holds', () => {
  test('remembers for the next process what this one has left, to the last field and nano-dollar', () => {
    const journal = openHoldJournal(data)
    journal.open(held('a'))
    journal.open(held('b', { byok: true, streamed: false }))
    expect(openHoldJournal(data).left()).toEqual([held('a'), held('b', { byok: true, streamed: false })])
    expect(statSync(file()).mode & 0o777).toBe(0o600)
  })

  test('knows nothing where nobody has written', () => {
    expect(openHoldJournal(data).left()).toEqual([])
  })

  test('remembers what calls have come to, the last time that it was said', () => {
    const journal = openHoldJournal(data)
    const [a, b] = [held('a'), held('b')]
    journal.open(a)
    journal.open(b)
    journal.progress([
      { held: a, spent: 7n },
      { held: b, spent: 5n },
    ])
    journal.progress([{ held: a, spent: 11n }])
    expect(openHoldJournal(data).left()).toEqual([held('a', { spent: 11n }), held('b')])
  })

  test('says again only what has changed', () => {
    const journal = openHoldJournal(data)
    const a = held('a')
    journal.open(a)
    const before = statSync(file()).size
    journal.progress([{ held: a, spent: 5n }])
    expect(statSync(file()).size).toBe(before)
  })

  test('leaves out a line that was cut, and what is none', () => {
    const journal = openHoldJournal(data)
    journal.open(held('a'))
    appendFileSync(file(), 'nonsense\n{"spent":"1"}\n[]\n{"id":"b","key_ha')
    expect(openHoldJournal(data).left()).toEqual([held('a')])
  })

  test('forgets all but the calls that run when it is cleared', () => {
    const journal = openHoldJournal(data)
    const [, onRecord] = ['a', 'b', 'c'].map(id => journal.open(held(id)))
    onRecord?.()
    journal.clear()
    expect(
      openHoldJournal(data)
        .left()
        .map(({ id }) => id),
    ).toEqual(['a', 'c'])
    journal.open(held('d'))
    expect(
      openHoldJournal(data)
        .left()
        .map(({ id }) => id),
    ).toEqual(['a', 'c', 'd'])
  })

  test('does not grow with the calls that were made, only with those that run', () => {
    const journal = openHoldJournal(data)
    journal.open(held('stays'))
    for (let i = 0; i < 30_000; i++) journal.open(held(`g${i}`))()
    expect(statSync(file()).size).toBeLessThan(5 * 1024 * 1024)
    expect(
      openHoldJournal(data)
        .left()
        .map(({ id }) => id),
    ).toContain('stays')
    expect(readFileSync(file(), 'utf8').split('\n').length).toBeLessThan(30_000)
  })

  test('refuses a call of which it cannot leave word: 503', () => {
    rmSync(data, { recursive: true })
    expect(() => openHoldJournal(data).open(held('a'))).toThrow(GatewayError)
    try {
      openHoldJournal(data).open(held('a'))
    } catch (thrown) {
      expect(GatewayError.from(thrown)).toMatchObject({ status: 503, retryAfter: 5 })
    }
  })
})
