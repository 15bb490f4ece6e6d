import { releaseBytes } from '../../base/body.ts'
import { GatewayError, tooLarge } from '../../base/errors.ts'
import { Pace } from '../body.ts'
import { findConnection } from '../connections.ts'

/** How many seconds a body may take without a server that says so. */
const BODY_SECONDS = 30

/**
 * Reads a body piece by piece, as fast as they are taken. A piece is gone when the next is asked
 * for. Throws 413 above `largest` bytes, promised or counted, 408 for a body that is too slow or
 * whose client has left, and what `decodeRequestBody` throws.
 */
export async function* readPieces(
  request: Request,
  largest: number,
): AsyncGenerator<Uint8Array, void> {
  if (Number(request.headers.get('content-length')) > largest) throw tooLarge()
  const isCoded = request.headers.get('content-encoding') !== null
  const body = isCoded ? await decodeBody(request, largest) : request.body
  if (!body) return
  const reader = body.getReader()
  const pace = new Pace(findConnection(request)?.bodySeconds ?? BODY_SECONDS, { isFile: true })
  const cancel = () => reader.cancel().catch(() => undefined)
  request.signal.addEventListener('abort', cancel)
  try {
    for (;;) {
      const { done, value } = await pace.limit(reader.read())
      if (request.signal.aborted) throw hasLeft()
      if (done) return
      pace.size += value.length
      if (pace.size > largest) throw tooLarge()
      yield value
      releaseBytes(value)
    }
  } finally {
    request.signal.removeEventListener('abort', cancel)
    void cancel()
  }
}

// Loaded on first use, as for JSON.
const decodeBody = async (request: Request, largest: number) =>
  (await import('./coding.ts')).decodeRequestBody(request, largest)

const hasLeft = () => new GatewayError('invalid_request', 'The client has left', { status: 408 })
