/** How a waiting stream is kept alive: after `interval` milliseconds of silence this text is sent, a comment or an event. */
export interface KeepAlive {
  text: string
  interval: number
}

const encoder = new TextEncoder()

/**
 * Texts as server-sent events over our own stream, written as the client reads. The client leaving stops the source at once.
 * The source may still be on its way: keep-alives are sent until it comes. A source must not throw: what fails after the first
 * byte is an event of its own.
 */
export function eventStream(
  source: AsyncIterator<string> | Promise<AsyncIterator<string>>,
  { text, interval }: KeepAlive,
  headers: Record<string, string>,
) {
  const line = encoder.encode(text)
  let timer: ReturnType<typeof setInterval> | undefined
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // A client whose answer is still on its way has waited for one interval already.
        if (source instanceof Promise) controller.enqueue(line)
        // Only a client that has read what it was sent is waiting.
        timer = setInterval(
          () => (controller.desiredSize ?? 0) > 0 && controller.enqueue(line),
          interval,
        )
      },
      async pull(controller) {
        const text = await nextText(source).catch(bug => {
          clearInterval(timer)
          throw bug
        })
        timer?.refresh()
        if (text === undefined) {
          clearInterval(timer)
          controller.close()
        } else controller.enqueue(encoder.encode(text))
      },
      async cancel() {
        clearInterval(timer)
        await (await source).return?.()
      },
    },
    { highWaterMark: 1 },
  )
  return new Response(body, {
    headers: {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
    },
  })
}

async function nextText(
  source: AsyncIterator<string> | Promise<AsyncIterator<string>>,
): Promise<string | undefined> {
  const texts = source instanceof Promise ? await source : source
  for (;;) {
    const step = await texts.next()
    if (step.done) return undefined
    if (step.value !== '') return step.value
  }
}
