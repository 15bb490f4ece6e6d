import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/base/errors.ts'
import type { HeldCall } from '../../src/limits/ledger.ts'
import { openHoldJournal } from '../../src/store/hold-journal.ts'
import { LOG, Log } from '../../src/store/log.ts'
import { PAYER } from '../support/generation.ts'
import { limitRoom, listLogFiles, openJournal, TEST_MACS } from '../support/log.ts'

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

const file = () => listLogFiles(data).at(-1) ?? ''
/** Where programs before the log had the journal. */
const earlier = () => join(data, 'holds.log')

describe('the journal of holds', () => {
  test('gives the next process every open call, with every field and exact amounts', async () => {
    const journal = openJournal(data)
    await journal.append(held('a')).written
    await journal.append(held('b', { byok: true, streamed: false })).written
    expect(openJournal(data).listCalls()).toEqual([
      held('a'),
      held('b', { byok: true, streamed: false }),
    ])
    expect(statSync(file()).mode & 0o777).toBe(0o600)
  })

  test('is empty before the first write', () => {
    expect(openJournal(data).listCalls()).toEqual([])
  })

  test('writes all calls of one event-loop turn together', async () => {
    const journal = openJournal(data)
    const [a, b] = [journal.append(held('a')), journal.append(held('b'))]
    expect(openJournal(data).listCalls()).toEqual([])
    expect(a.written).toBe(b.written)
    await a.written
    expect(openJournal(data).listCalls()).toEqual([held('a'), held('b')])
  })

  test('remembers the latest spending of each call', async () => {
    const journal = openJournal(data)
    const [a, b] = [held('a'), held('b')]
    journal.append(a)
    await journal.append(b).written
    await journal.updateSpent([
      { held: a, spent: 7n },
      { held: b, spent: 5n },
    ])
    await journal.updateSpent([{ held: a, spent: 11n }])
    expect(openJournal(data).listCalls()).toEqual([held('a', { spent: 11n }), held('b')])
  })

  test('remembers the highest step of a call, whichever line is last', async () => {
    const journal = openJournal(data)
    const [first, second] = [held('a'), held('a', { step: 2, byok: true, spent: 1n })]
    journal.append(first)
    await journal.append(second).written
    await journal.updateSpent([{ held: first, spent: 9n }])
    expect(openJournal(data).listCalls()).toEqual([second])
    await journal.updateSpent([{ held: second, spent: 3n }])
    expect(openJournal(data).listCalls()).toEqual([{ ...second, spent: 3n }])
  })

  test('keeps every inner step beside the last one, each with its last line', async () => {
    const journal = openJournal(data)
    const outer = held('a', { step: 4 })
    const inner = [2, 3].map(step => held('a', { step, inner: true }))
    for (const entry of [held('a'), ...inner]) journal.append(entry)
    await journal.append(outer).written
    await journal.updateSpent([{ held: inner[1] as HeldCall, spent: 9n }])
    expect(openJournal(data).listCalls()).toEqual([
      outer,
      ...[inner[0], { ...inner[1], spent: 9n }].map(entry => entry as HeldCall),
    ])
  })

  test('reads a line with a missing or invalid step as step 1', () => {
    const line = { ...held('a'), nanos: '1', spent: '1' }
    for (const step of [undefined, null, 0, -1, 1.5, '2', 2 ** 60]) {
      appendFileSync(earlier(), `${JSON.stringify({ ...line, step })}\n`)
      expect(openJournal(data).listCalls()).toEqual([held('a', { nanos: 1n, spent: 1n })])
    }
  })

  test('writes progress only for calls that changed', async () => {
    const journal = openJournal(data)
    const a = held('a')
    await journal.append(a).written
    const before = statSync(file()).size
    await journal.updateSpent([{ held: a, spent: 5n }])
    expect(statSync(file()).size).toBe(before)
  })

  test('ignores an incomplete line and invalid ones, which it counts', async () => {
    await openJournal(data).append(held('a')).written
    appendFileSync(earlier(), 'nonsense\n{"spent":"1"}\n[]\n{"id":"b","key_ha')
    expect(openJournal(data).listCalls()).toEqual([held('a')])
    expect(openJournal(data).listGarbled()).toHaveLength(3)
  })

  test('believes no line in which any byte was changed, and keeps a copy of it', async () => {
    await openJournal(data).append(held('a')).written
    const written = readFileSync(file())
    for (let at = 0; at < written.length; at++) {
      const changed = Buffer.from(written)
      changed[at] = (changed[at] ?? 0) ^ 1
      writeFileSync(file(), changed)
      const journal = openJournal(data)
      // A line end within the line makes two of it.
      expect([journal.listCalls(), journal.listGarbled().length > 0]).toEqual([[], true])
    }
    await openJournal(data).clear()
    expect(openJournal(data).listGarbled()).toEqual([])
    expect(existsSync(join(data, 'log.garbled'))).toBe(true)
  })

  test('keeps only running calls when it is cleared', async () => {
    const journal = openJournal(data)
    const [, b, c] = ['a', 'b', 'c'].map(id => journal.append(held(id)))
    await c?.written
    b?.forget()
    await journal.clear()
    expect(
      openJournal(data)
        .listCalls()
        .map(({ id }) => id),
    ).toEqual(['a', 'c'])
    await journal.append(held('d')).written
    expect(
      openJournal(data)
        .listCalls()
        .map(({ id }) => id),
    ).toEqual(['a', 'c', 'd'])
  })

  test('grows with the running calls, not with all calls ever made', async () => {
    const journal = openHoldJournal(data, new Log(data, TEST_MACS, LOG, { largest: 2 ** 20 }))
    journal.append(held('stays'))
    for (let i = 0; i < 30_000; i++) {
      const { written, forget } = journal.append(held(`g${i}`))
      if (i % 10 === 0) await written
      forget()
    }
    expect(listLogFiles(data)).toHaveLength(1)
    expect(statSync(file()).size).toBeLessThan(1.1 * 2 ** 20)
    expect(journal.bytes).toBe(statSync(file()).size)
    expect(
      openJournal(data)
        .listCalls()
        .map(({ id }) => id),
    ).toContain('stays')
    expect(readFileSync(file(), 'utf8').split('\n').length).toBeLessThan(30_000)
  })

  test('refuses all calls of a turn when the disk is full, and no more when there is room', async () => {
    let room = 400
    const write = limitRoom(() => room)
    const journal = openHoldJournal(data, new Log(data, TEST_MACS, LOG, { write }))
    const words = [journal.append(held('a')), journal.append(held('b'))]
    const refusals = await Promise.all(
      words.map(({ written }) => written.then(() => 'written').catch(thrown => thrown.status)),
    )
    expect([refusals, openJournal(data).listCalls()]).toEqual([[503, 503], []])
    room = 7_000
    await journal.append(held('c')).written
    expect(openJournal(data).listCalls()).toEqual([held('c')])
    expect(openJournal(data).listGarbled()).toEqual([])
  })

  test('refuses a call that it cannot write, with 503', async () => {
    rmSync(data, { recursive: true })
    const refusal = await openJournal(data)
      .append(held('a'))
      .written.catch(thrown => thrown)
    expect(refusal).toBeInstanceOf(GatewayError)
    expect(refusal).toMatchObject({ status: 503, retryAfter: 5 })
  })
})
