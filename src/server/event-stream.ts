import type { Connection } from './connections.ts'
import { ReaderPace } from './event-stream/pace.ts'

/** The texts of a stream, or a promise of them. */
export type EventSource = AsyncIterator<string> | Promise<AsyncIterator<string>>

/** Keeps a waiting stream alive: after `interval` milliseconds of silence its text is sent. */
interface KeepAlive {
  render(): string
  interval: number
}

/** How a stream is written, where that is not as events. */
interface StreamForm {
  media_type?: string
  /** Each character of its texts is a byte. */
  isBinary?: boolean
}

const encoder = new TextEncoder()

/** In bytes: a larger text is counted in the memory of calls until its reader has taken it. */
const LARGE = 16 * 1024

/**
 * Creates a response that streams texts as server-sent events, or as another type, written as the client reads. A
 * client that leaves stops the source at once, and so does the server when it takes nothing for
 * too long, or less than the least rate. While the source is pending, keep-alives are sent. A
 * source must not throw: a failure after the first byte is an event.
 */
export function createEventStreamResponse(
  source: EventSource,
  { render, interval }: KeepAlive,
  headers: Record<string, string>,
  connection?: Connection,
  { media_type = 'text/event-stream; charset=utf-8', isBinary = false }: StreamForm = {},
) {
  const encode = (text: string): Uint8Array =>
    isBinary ? Buffer.from(text, 'latin1') : encoder.encode(text)
  let timer: ReturnType<typeof setInterval> | undefined
  connection?.startReading()
  const limits = connection?.paceLimits
  const pace = limits ? new ReaderPace(limits, performance.now()) : null
  // The source is not told that the client is gone if the stream itself breaks off.
  const cut = (controller: Controller) => {
    clearInterval(timer)
    controller.error(new Error('The client reads too slowly'))
    connection?.leaveReading()
    void stopSource(source)
  }
  const createWriter = (controller: Controller): TextWriter => ({
    write(text) {
      timer?.refresh()
      const bytes = encode(text)
      controller.enqueue(bytes)
      if (bytes.length > LARGE) connection?.holdUnread(bytes.length)
      pace?.hand(bytes.length, performance.now())
    },
    end() {
      clearInterval(timer)
      controller.close()
      connection?.finishReading()
    },
    fail(bug) {
      clearInterval(timer)
      connection?.leaveReading()
      throw bug
    },
  })
  let writer: TextWriter | undefined
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // A client whose answer is still pending has waited for one interval already.
        if (source instanceof Promise) controller.enqueue(encode(render()))
        // Only a client that has read everything so far is waiting.
        timer = setInterval(() => {
          if (pace?.isTooSlow(performance.now())) cut(controller)
          else if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encode(render()))
          else connection?.holdUnread(0)
        }, interval)
      },
      pull(controller) {
        const room = connection?.readOn()
        if (pace?.take(performance.now())) return cut(controller)
        writer ??= createWriter(controller)
        return room ? readLater(room, source, writer) : readNextText(source, writer)
      },
      async cancel() {
        clearInterval(timer)
        connection?.leaveReading()
        await stopSource(source)
      },
    },
    { highWaterMark: 1 },
  )
  return new Response(body, {
    headers: {
      ...headers,
      'content-type': media_type,
      'cache-control': 'no-cache',
    },
  })
}

type Controller = ReadableStreamDefaultController<Uint8Array>

async function stopSource(source: EventSource): Promise<void> {
  await (await source).return?.()
}

/** Takes the next text of a source, or learns that there is none. */
interface TextWriter {
  write(text: string): void
  end(): void
  fail(bug: unknown): never
}

// One promise for each text, and not one for each function on its way.
function readNextText(source: EventSource, writer: TextWriter): Promise<void> {
  if (source instanceof Promise)
    return source.then(texts => readNextText(texts, writer), writer.fail)
  return source.next().then(step => {
    if (step.done) return writer.end()
    return step.value === '' ? skipEmptyTexts(source, writer) : writer.write(step.value)
  }, writer.fail)
}

async function readLater(room: Promise<void>, source: EventSource, writer: TextWriter) {
  await room
  await readNextText(source, writer)
}

// A loop: of texts without an end, none leaves a promise behind.
async function skipEmptyTexts(texts: AsyncIterator<string>, writer: TextWriter): Promise<void> {
  for (;;) {
    const step = await texts.next().catch(writer.fail)
    if (step.done) return writer.end()
    if (step.value !== '') return writer.write(step.value)
  }
}
