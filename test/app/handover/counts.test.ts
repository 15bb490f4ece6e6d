import { afterEach, beforeEach, expect, test } from 'bun:test'
import { giveCounts, takeCounts } from '../../../src/app/handover/counts.ts'
import { parseConfig } from '../../../src/config.ts'
import { type Counters, type Grant, openCounters } from '../../../src/limits/counters.ts'
import type { Ledger } from '../../../src/limits/ledger.ts'
import { openChannels } from '../../support/channels.ts'
import { TestClock } from '../../support/gateway.ts'

const KEY = { key_hash: 'k' }
const NO_BOOKS = {} as Ledger
const CALL = { models: ['acme/small'] }

let old: Counters
let next: Counters
let channels: Awaited<ReturnType<typeof openChannels>>

beforeEach(async () => {
  const limits = { concurrent_requests: 3, requests_per_minute: 7 }
  const config = parseConfig(JSON.stringify({ limits }), {})
  const clock = new TestClock()
  old = openCounters(config, clock, NO_BOOKS)
  next = openCounters(config, clock, NO_BOOKS)
  channels = await openChannels()
})

afterEach(() => channels.close())

/** Takes a request and a place, and returns what gives the place back. */
function acquire(counters: Counters): () => void {
  const grant = counters.take({ actor: KEY, call: CALL, request: true, place: true }) as Grant
  return () => counters.give(grant)
}

async function handOver(): Promise<void> {
  const taking = takeCounts({ traffic: { counters: next } }, channels.next)
  channels.next.answer({ ...taking, told: () => true })
  const giving = giveCounts({ traffic: { counters: old } }, channels.old)
  channels.old.answer({ ...giving, told: () => true })
  await settle()
}

/** Waits until each side has what the other has told. */
const settle = () => Promise.all([channels.old.ask('told'), channels.next.ask('told')])

test('calls at once count at both servers, until they end', async () => {
  const release = acquire(old)
  acquire(old)
  await handOver()
  acquire(next)
  await settle()
  expect(() => acquire(next)).toThrow('concurrent-requests')
  expect(() => acquire(old)).toThrow('concurrent-requests')
  release()
  await settle()
  acquire(next)
})

test('calls of a minute count at both servers, whichever answers them', async () => {
  for (let i = 0; i < 3; i++) acquire(old)()
  await handOver()
  for (let i = 0; i < 2; i++) acquire(next)()
  for (let i = 0; i < 2; i++) acquire(old)()
  await settle()
  expect(() => acquire(next)).toThrow('requests-per-min')
  expect(() => acquire(old)).toThrow('requests-per-min')
})

test('calls of a server that has died no longer count as running', async () => {
  for (let i = 0; i < 3; i++) acquire(old)
  await handOver()
  expect(() => acquire(next)).toThrow('concurrent-requests')
  channels.old.close()
  await channels.next.closed
  acquire(next)
})
