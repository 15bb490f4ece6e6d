import { GatewayError, tooLarge } from '../../core/errors.ts'
import { releaseBytes } from '../../core/kernel/body.ts'
import { findConnection } from '../connections.ts'
import { Pace } from './pace.ts'

/** How many seconds a body may take without a server that says so. */
const BODY_SECONDS = 30

/**
 * Reads a body piece by piece, as fast as they are taken. A piece is gone when the next is asked
 * for. Throws 413 above `largest` bytes, promised or counted, and 408 for a body that is too slow
 * or whose client has left.
 */
export async function* readPieces(
  request: Request,
  largest: number,
): AsyncGenerator<Uint8Array, void> {
  if (Number(request.headers.get('content-length')) > largest) throw tooLarge()
  if (!request.body) return
  const reader = request.body.getReader()
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

const hasLeft = () => new GatewayError('invalid_request', 'The client has left', { status: 408 })
