import { expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { Cancellation } from '../../src/base/cancellation.ts'
import { Deadline } from '../../src/network/answer.ts'
import { type IncomingResponse, openHttpClient } from '../../src/network/egress.ts'
import { PartStream } from '../../src/network/part-stream.ts'
import { openaiChat } from '../../src/translation/protocols/openai-chat.ts'
import { buildEndpoint, buildTextCall } from '../support/call.ts'
import { startRawServer } from './http/raw-server.ts'

/** In milliseconds. */
const IDLE = 20
const TOTAL = 60_000

const delta = (content: string) =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content } }] })}\n\n`
const FINISH =
  'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

/** How a stream is opened: its clock, and how its connection ends after the last piece. */
interface Opening {
  now?: () => number
  end?: 'silence' | 'reset' | 'close'
}

/** Opens a stream over these pieces. After the last one its upstream says nothing more. */
function openStream(
  pieces: string[],
  { now = () => performance.now(), end = 'silence' }: Opening = {},
): PartStream<unknown> {
  const limits = { firstByte: 10_000, idle: IDLE, total: TOTAL }
  const deadline = new Deadline(new Cancellation(), limits, { now })
  const silence = Promise.withResolvers<never>()
  silence.promise.catch(() => undefined)
  deadline.attempt.listen(silence.reject)
  const left = pieces.map(piece => new TextEncoder().encode(piece))
  const reset = () => Promise.reject(new Error('ECONNRESET'))
  const ends = { silence: () => silence.promise, reset, close: () => null }
  const read = async () => left.shift() ?? ends[end]()
  const incoming = { read } as Partial<IncomingResponse> as IncomingResponse
  const reader = openaiChat.createReader(buildTextCall({ stream: true }), buildEndpoint({}))
  return new PartStream(incoming, reader, 'sse', deadline)
}

test('a reader who pauses for longer than an upstream may be silent gets the rest', async () => {
  const stream = openStream([delta('a'), delta('b'), FINISH])
  for (const _ of ['a', 'b', 'finish']) {
    expect((await stream.next()).value).not.toBeEmpty()
    await Bun.sleep(3 * IDLE)
  }
  expect((await stream.next()).done).toBe(true)
})

test('silence after a pause is silence', async () => {
  const stream = openStream([delta('a')])
  await stream.next()
  await Bun.sleep(3 * IDLE)
  expect(await stream.next().catch(({ type }) => type)).toBe('timeout')
})

test('what a reader pauses is no time of the upstream', async () => {
  let now = 0
  const stream = openStream([delta('a'), delta('b'), FINISH], { now: () => now })
  for (const _ of ['a', 'b', 'finish']) {
    expect((await stream.next()).value).not.toBeEmpty()
    now += TOTAL + 1
  }
  expect((await stream.next()).done).toBe(true)
})

test('U-17 an upstream that takes longer than it may has a timeout, whatever its reader pauses', async () => {
  let now = 0
  const stream = openStream([delta('a'), delta('b')], { now: () => now })
  await stream.next()
  now += 5 * TOTAL
  const next = stream.next()
  // The upstream takes this time: the reader waits for it.
  now += TOTAL + 1
  await next
  expect(await stream.next().catch(({ type }) => type)).toBe('timeout')
})

test.each([
  [0, 'provider_unavailable', 502],
  [9_000, 'provider_unavailable', 502],
  [10_000, 'cancelled', 499],
])(
  'an upstream that hangs up after its reader has paused for %d ms: %s',
  async (paused, type, status) => {
    let now = 0
    for (const end of ['reset', 'close'] as const) {
      const stream = openStream([delta('a')], { now: () => now, end })
      await stream.next()
      now += paused
      expect(await stream.next().catch(thrown => thrown)).toMatchObject({ type, status })
    }
  },
)

test('silence is a timeout', async () => {
  const stream = openStream([delta('a')])
  await stream.next()
  expect(await stream.next().catch(({ type }) => type)).toBe('timeout')
})

test('what has come while the gateway itself stood still is no silence', async () => {
  const accepted = Promise.withResolvers<Socket>()
  await using server = await startRawServer(socket => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfirst')
    accepted.resolve(socket)
  })
  const limits = { firstByte: 10_000, idle: IDLE, total: TOTAL }
  const deadline = new Deadline(new Cancellation(), limits)
  const http = openHttpClient({ connectMilliseconds: 5_000 })
  const request = { method: 'POST', url: server.url, headers: {}, body: '' }
  const incoming = await http.send(request, deadline.attempt)
  deadline.touch((await incoming.read())?.length ?? 0)
  const next = incoming.read()
  const socket = await accepted.promise
  socket.write('again')
  for (const end = performance.now() + 3 * IDLE; performance.now() < end; ) {}
  deadline.touch((await next)?.length ?? 0)
  expect(deadline.attempt.reason).toBeNull()
  deadline.close()
  http.close()
})
