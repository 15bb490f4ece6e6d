import type { RawBody } from '../translation/dialects/raw-body.ts'
import type { Connection } from './connections.ts'
import { ReaderPace } from './event-stream/pace.ts'

/** Creates the response of a body that is not JSON. */
export const createRawResponse = (
  { media_type, content }: RawBody,
  headers: Record<string, string>,
  connection?: Connection,
  status = 200,
): Response =>
  new Response(typeof content === 'string' ? content : createByteStream(content, connection), {
    status,
    headers: { ...headers, 'content-type': media_type, 'x-content-type-options': 'nosniff' },
  })

/** How often a client is asked whether it still reads. */
const WATCH = 1_000

/**
 * Creates a stream of bytes, taken as the client reads: no more than one piece waits. A client that
 * leaves, or reads too slowly, ends the source at once. A source that breaks off breaks the response
 * off, so that no client takes it for a whole one. What waits is counted, unless all of it is held.
 */
export function createByteStream(
  source: AsyncIterator<Uint8Array>,
  connection?: Connection,
  { isHeld = false } = {},
): ReadableStream<Uint8Array> {
  connection?.startReading()
  const limits = connection?.paceLimits
  const pace = limits ? new ReaderPace(limits, performance.now()) : null
  let timer: ReturnType<typeof setInterval> | undefined
  const cut = (controller: Controller) => {
    clearInterval(timer)
    controller.error(new Error('The client reads too slowly'))
    connection?.leaveReading()
    void source.return?.()
  }
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        if (pace)
          timer = setInterval(() => pace.isTooSlow(performance.now()) && cut(controller), WATCH)
      },
      async pull(controller) {
        const room = connection?.readOn()
        if (room) await room
        if (pace?.take(performance.now())) return cut(controller)
        const step = await readNext(source).catch(thrown => {
          clearInterval(timer)
          connection?.leaveReading()
          throw thrown
        })
        if (step === undefined) {
          clearInterval(timer)
          controller.close()
          connection?.finishReading()
          return
        }
        controller.enqueue(step)
        if (!isHeld) connection?.holdUnread(step.length)
        pace?.hand(step.length, performance.now())
      },
      async cancel() {
        clearInterval(timer)
        connection?.leaveReading()
        await source.return?.()
      },
    },
    { highWaterMark: 1 },
  )
}

type Controller = ReadableStreamDefaultController<Uint8Array>

async function readNext(source: AsyncIterator<Uint8Array>): Promise<Uint8Array | undefined> {
  for (;;) {
    const step = await source.next()
    if (step.done) return undefined
    if (step.value.length > 0) return step.value
  }
}
