import { expect, test } from 'bun:test'
import { Cancellation } from '../../../src/core/kernel/cancellation.ts'
import { openaiChat } from '../../../src/core/protocols/openai-chat.ts'
import { Deadline } from '../../../src/core/upstream/answer.ts'
import type { IncomingResponse } from '../../../src/core/upstream/egress.ts'
import { PartStream } from '../../../src/core/upstream/part-stream.ts'
import { buildEndpoint, buildTextCall } from '../../support/call.ts'

/** In milliseconds. */
const IDLE = 20

const delta = (content: string) =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content } }] })}\n\n`
const FINISH =
  'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

/** Opens a stream over these pieces. After the last one its upstream says nothing more. */
function openStream(pieces: string[]): PartStream<unknown> {
  const deadline = new Deadline(new Cancellation(), {
    firstByte: 10_000,
    idle: IDLE,
    total: 60_000,
  })
  const silence = Promise.withResolvers<never>()
  deadline.attempt.listen(silence.reject)
  const left = pieces.map(piece => new TextEncoder().encode(piece))
  const read = async () => left.shift() ?? silence.promise
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

test('silence is a timeout', async () => {
  const stream = openStream([delta('a')])
  await stream.next()
  expect(await stream.next().catch(({ type }) => type)).toBe('timeout')
})
