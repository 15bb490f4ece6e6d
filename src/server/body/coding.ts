import { yieldToEventLoop } from '../../base/clock.ts'
import { GatewayError, invalid, tooLarge } from '../../base/errors.ts'

type Body = ReadableStream<Uint8Array<ArrayBuffer>>

/** The codings of a body that can be undone (RFC 9110, 8.4.1; RFC 8878), as the platform has them. */
const CODINGS: Record<string, Bun.CompressionFormat> = {
  gzip: 'gzip',
  'x-gzip': 'gzip',
  deflate: 'deflate',
  br: 'brotli',
  zstd: 'zstd',
}

/** After so many bytes of a body others get their turn: a few bytes become many in no time. */
const TURN = 256 * 1024

/**
 * Returns the body of a request as it was before its `content-encoding`. It is decoded as it is read,
 * so that no more of a bomb exists than was asked for. Throws 415 for a coding that is unknown, and
 * for several; reading it throws 413 where more than `largest` bytes were sent, and 400 for what is
 * not, or not the whole of, what its coding says.
 */
export function decodeRequestBody(request: Request, largest: number): Body | null {
  const { body } = request
  const coding = (request.headers.get('content-encoding') ?? '').trim().toLowerCase()
  if (body === null || coding === '' || coding === 'identity') return body
  const format = Object.hasOwn(CODINGS, coding) ? CODINGS[coding] : undefined
  if (!format) throw refuseCoding()
  const decoded = body
    .pipeThrough(boundStream(largest))
    // Bun has more formats than the type that is shared with browsers.
    .pipeThrough(new DecompressionStream(format as CompressionFormat) as Transformer)
  return readInTurns(decoded, coding)
}

type Transformer = TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>

const refuseCoding = () =>
  new GatewayError('invalid_request', `Expected a body in one of ${ACCEPTED}, or as it is`, {
    status: 415,
    metadata: { headers: { 'accept-encoding': ACCEPTED } },
  })

const ACCEPTED = 'gzip, deflate, br, zstd'

// What decodes to nothing, such as empty frames, is bounded where it comes in.
function boundStream(largest: number): Transformer {
  let size = 0
  return new TransformStream({
    transform(piece, controller) {
      size += piece.length
      if (size > largest) controller.error(tooLarge())
      else controller.enqueue(piece)
    },
  })
}

/** Passes a decoded body on. What the platform says of a broken one becomes the caller's error. */
function readInTurns(decoded: Body, coding: string): Body {
  const reader = decoded.getReader()
  let size = 0
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (done) return controller.close()
        size += value.length
        controller.enqueue(value)
        if (size % TURN < value.length) await yieldToEventLoop()
      } catch (thrown) {
        const isOurs = thrown instanceof GatewayError
        controller.error(isOurs ? thrown : invalid(`body: expected a whole body in ${coding}`))
      }
    },
    cancel: reason => reader.cancel(reason),
  })
}
