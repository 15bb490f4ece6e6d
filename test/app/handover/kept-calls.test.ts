import { afterEach, beforeEach, expect, test } from 'bun:test'
import {
  type GivenAnswers,
  giveKeptCalls,
  takeKeptCalls,
} from '../../../src/app/handover/kept-calls.ts'
import { type KeptAnswer, KeptCalls } from '../../../src/resources/idempotency/calls.ts'
import { openChannels } from '../../support/channels.ts'
import { TestClock } from '../../support/gateway.ts'

const MOST = 1024 * 1024
const clock = new TestClock()
const now = clock.now().getTime()

let old: KeptCalls
let next: KeptCalls
let channels: Awaited<ReturnType<typeof openChannels>>

beforeEach(async () => {
  old = new KeptCalls()
  next = new KeptCalls()
  channels = await openChannels()
})

afterEach(() => channels.close())

const worldOf = (keptCalls: KeptCalls) => ({
  ...{ clock, config: { idempotency: { max_mib: 1 } } },
  traffic: { keptCalls },
})

const answerOf = (text: string): KeptAnswer => ({
  ...{ status: 200, headers: [['content-type', 'text/plain']] },
  pieces: [new Uint8Array(Buffer.from(text)), new Uint8Array([0, 255])],
})

async function handOver(): Promise<GivenAnswers> {
  const taking = takeKeptCalls(worldOf(next), channels.next)
  channels.next.answer({ ...taking, told: () => true })
  const given = giveKeptCalls(worldOf(old), channels.old)
  await channels.old.ask('told')
  return given
}

test('what has ended, runs, or ends later is known to the next server', async () => {
  await old.begin('ended', 'a', now)
  old.end('ended', answerOf('one'), MOST)
  await old.begin('running', 'b', now)
  await old.begin('failing', 'c', now)
  const given = await handOver()
  expect(next.find('running', now)).toMatchObject({ fingerprint: 'b', answer: null })
  old.end('running', answerOf('two'), MOST)
  old.end('failing', null, MOST)
  await given.sent
  expect(next.find('ended', now)).toMatchObject({ fingerprint: 'a', answer: answerOf('one') })
  expect(next.find('running', now)?.answer).toEqual(answerOf('two'))
  expect(next.find('failing', now)).toBeUndefined()
})

test('who asks for an answer that is on its way waits for it', async () => {
  await old.begin('ended', 'a', now)
  old.end('ended', answerOf('x'.repeat(100_000)), MOST)
  const taking = takeKeptCalls(worldOf(next), channels.next)
  const way = Promise.withResolvers<void>()
  const answer: typeof taking.answer = (...of) => void way.promise.then(() => taking.answer(...of))
  channels.next.answer({ ...taking, answer, told: () => true })
  giveKeptCalls(worldOf(old), channels.old)
  await channels.old.ask('told')
  const found = next.find('ended', now)
  expect(found?.answer).toBeNull()
  way.resolve()
  await found?.arriving
  expect(found?.answer).toEqual(answerOf('x'.repeat(100_000)))
})

test('one name begins at one of the servers, whichever is asked first', async () => {
  const given = await handOver()
  expect(await old.begin('at old', 'a', now)).toBeUndefined()
  expect(await next.begin('at old', 'a', now)).toMatchObject({ answer: null })
  expect(await next.begin('at next', 'b', now)).toBeUndefined()
  expect(await old.begin('at next', 'b', now)).toMatchObject({ fingerprint: 'b', answer: null })
  next.end('at next', answerOf('one'), MOST)
  expect(await old.begin('at next', 'b', now)).toMatchObject({ answer: answerOf('one') })
  old.end('at old', answerOf('two'), MOST)
  await given.sent
  expect(next.find('at old', now)?.answer).toEqual(answerOf('two'))
})

test('calls of a server that has died may be made again, and it goes on alone', async () => {
  await old.begin('running', 'a', now)
  await handOver()
  channels.next.close()
  await channels.old.closed
  expect(next.find('running', now)).toBeUndefined()
  expect(await old.begin('another', 'b', now)).toBeUndefined()
})

test('a call that has ended is known for a day, one that runs until it ends', async () => {
  const day = 86_400_000
  await old.begin('running', 'a', now)
  await old.begin('ended', 'b', now)
  old.end('ended', answerOf('one'), MOST)
  expect(old.find('ended', now + day)).toBeUndefined()
  expect(old.find('running', now + day)).toMatchObject({ fingerprint: 'a' })
})
