import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/base/errors.ts'
import type { HeldCall } from '../../src/limits/ledger.ts'
import { openHoldJournal } from '../../src/store/hold-journal.ts'
import { PAYER } from '../support/generation.ts'

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
  step: 1,
  byok: false,
  nanos: 2n ** 62n,
  spent: 5n,
  ...more,
})

const file = () => join(data, 'holds.log')

describe('the journal of holds', () => {
  test('gives the next process every open call, with every field and exact amounts', async () => {
    const journal = openHoldJournal(data)
    await journal.append(held('a')).written
    await journal.append(held('b', { byok: true, streamed: false })).written
    expect(openHoldJournal(data).listCalls()).toEqual([
      held('a'),
      held('b', { byok: true, streamed: false }),
    ])
    expect(statSync(file()).mode & 0o777).toBe(0o600)
  })

  test('is empty before the first write', () => {
    expect(openHoldJournal(data).listCalls()).toEqual([])
  })

  test('writes all calls of one event-loop turn together', async () => {
    const journal = openHoldJournal(data)
    const [a, b] = [journal.append(held('a')), journal.append(held('b'))]
    expect(openHoldJournal(data).listCalls()).toEqual([])
    expect(a.written).toBe(b.written)
    await a.written
    expect(openHoldJournal(data).listCalls()).toEqual([held('a'), held('b')])
  })

  test('remembers the latest spending of each call', async () => {
    const journal = openHoldJournal(data)
    const [a, b] = [held('a'), held('b')]
    journal.append(a)
    await journal.append(b).written
    journal.updateSpent([
      { held: a, spent: 7n },
      { held: b, spent: 5n },
    ])
    journal.updateSpent([{ held: a, spent: 11n }])
    expect(openHoldJournal(data).listCalls()).toEqual([held('a', { spent: 11n }), held('b')])
  })

  test('remembers the highest step of a call, whichever line is last', async () => {
    const journal = openHoldJournal(data)
    const [first, second] = [held('a'), held('a', { step: 2, byok: true, spent: 1n })]
    journal.append(first)
    await journal.append(second).written
    journal.updateSpent([{ held: first, spent: 9n }])
    expect(openHoldJournal(data).listCalls()).toEqual([second])
    journal.updateSpent([{ held: second, spent: 3n }])
    expect(openHoldJournal(data).listCalls()).toEqual([{ ...second, spent: 3n }])
  })

  test('keeps every inner step beside the last one, each with its last line', async () => {
    const journal = openHoldJournal(data)
    const outer = held('a', { step: 4 })
    const inner = [2, 3].map(step => held('a', { step, inner: true }))
    for (const entry of [held('a'), ...inner]) journal.append(entry)
    await journal.append(outer).written
    journal.updateSpent([{ held: inner[1] as HeldCall, spent: 9n }])
    expect(openHoldJournal(data).listCalls()).toEqual([
      outer,
      ...[inner[0], { ...inner[1], spent: 9n }].map(entry => entry as HeldCall),
    ])
  })

  test('reads a line with a missing or invalid step as step 1', () => {
    const line = { ...held('a'), nanos: '1', spent: '1' }
    for (const step of [undefined, null, 0, -1, 1.5, '2', 2 ** 60]) {
      appendFileSync(file(), `${JSON.stringify({ ...line, step })}\n`)
      expect(openHoldJournal(data).listCalls()).toEqual([held('a', { nanos: 1n, spent: 1n })])
    }
  })

  test('writes progress only for calls that changed', async () => {
    const journal = openHoldJournal(data)
    const a = held('a')
    await journal.append(a).written
    const before = statSync(file()).size
    journal.updateSpent([{ held: a, spent: 5n }])
    expect(statSync(file()).size).toBe(before)
  })

  test('ignores an incomplete line and invalid ones, which it counts', async () => {
    await openHoldJournal(data).append(held('a')).written
    appendFileSync(file(), 'nonsense\n{"spent":"1"}\n[]\n{"id":"b","key_ha')
    expect(openHoldJournal(data).listCalls()).toEqual([held('a')])
    expect(openHoldJournal(data).listGarbled()).toHaveLength(3)
  })

  test('believes no line in which any byte was changed, and keeps a copy of it', async () => {
    await openHoldJournal(data).append(held('a')).written
    const written = readFileSync(file())
    for (let at = 0; at < written.length - 1; at++) {
      const changed = Buffer.from(written)
      changed[at] = (changed[at] ?? 0) ^ 1
      writeFileSync(file(), changed)
      const journal = openHoldJournal(data)
      // A line end within the line makes two of it.
      expect([journal.listCalls(), journal.listGarbled().length > 0]).toEqual([[], true])
    }
    openHoldJournal(data).clear()
    expect(openHoldJournal(data).listGarbled()).toEqual([])
    expect(existsSync(`${file()}.garbled`)).toBe(true)
  })

  test('keeps only running calls when it is cleared', async () => {
    const journal = openHoldJournal(data)
    const [, b, c] = ['a', 'b', 'c'].map(id => journal.append(held(id)))
    await c?.written
    b?.forget()
    journal.clear()
    expect(
      openHoldJournal(data)
        .listCalls()
        .map(({ id }) => id),
    ).toEqual(['a', 'c'])
    await journal.append(held('d')).written
    expect(
      openHoldJournal(data)
        .listCalls()
        .map(({ id }) => id),
    ).toEqual(['a', 'c', 'd'])
  })

  test('grows with the running calls, not with all calls ever made', async () => {
    const journal = openHoldJournal(data)
    journal.append(held('stays'))
    for (let i = 0; i < 30_000; i++) {
      const { written, forget } = journal.append(held(`g${i}`))
      if (i % 10 === 0) await written
      forget()
    }
    expect(statSync(file()).size).toBeLessThan(5 * 1024 * 1024)
    expect(
      openHoldJournal(data)
        .listCalls()
        .map(({ id }) => id),
    ).toContain('stays')
    expect(readFileSync(file(), 'utf8').split('\n').length).toBeLessThan(30_000)
  })

  test.skipIf(!existsSync('/dev/full'))(
    'refuses all calls of a turn when the disk is full',
    async () => {
      symlinkSync('/dev/full', file())
      const journal = openHoldJournal(data)
      const words = [journal.append(held('a')), journal.append(held('b'))]
      const refusals = await Promise.all(
        words.map(({ written }) => written.then(() => 'written').catch(thrown => thrown.status)),
      )
      expect(refusals).toEqual([503, 503])
    },
  )

  test('refuses a call that it cannot write, with 503', async () => {
    rmSync(data, { recursive: true })
    const refusal = await openHoldJournal(data)
      .append(held('a'))
      .written.catch(thrown => thrown)
    expect(refusal).toBeInstanceOf(GatewayError)
    expect(refusal).toMatchObject({ status: 503, retryAfter: 5 })
  })
})
