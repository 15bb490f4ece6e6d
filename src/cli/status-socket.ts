import { chmodSync, closeSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'

/** The socket on which a server tells its state to those who may read its data directory. */
const NAME = 'serve.sock'

/** In bytes: the longest path of a socket that every system takes. */
const LONGEST_PATH = 100

/**
 * Answers each connection to the socket of a data directory with one line, and returns the function
 * that stops this. One that a killed server has left is replaced: the lock says that no other
 * server is running. Throws what the system throws where there can be no socket.
 */
export function serveStatus(data: string, describe: () => string): () => void {
  const path = join(data, NAME)
  rmSync(path, { force: true })
  const { path: short, close } = openShortPath(data)
  try {
    const server = Bun.listen({
      unix: short,
      // The reader closes: what is written to a socket that is closed at once may not be read.
      socket: { open: socket => void socket.write(`${describe()}\n`), data: () => undefined },
    })
    chmodSync(path, 0o600)
    return () => {
      server.stop(true)
      rmSync(path, { force: true })
    }
  } finally {
    close()
  }
}

/** In milliseconds. A server that is busy answers within a turn of its event loop. */
const LONGEST_WAIT = 5_000

/**
 * Reads what the server of a data directory tells. Undefined where none answers: nothing listens,
 * or not within five seconds.
 */
export async function readStatus(data: string): Promise<string | undefined> {
  const { path, close } = openShortPath(data)
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const timer = setTimeout(() => resolve(undefined), LONGEST_WAIT)
  const decoder = new TextDecoder()
  let line = ''
  try {
    const socket = await Bun.connect({
      unix: path,
      socket: {
        data: (_, part) => {
          line += decoder.decode(part, { stream: true })
          if (line.endsWith('\n')) resolve(line)
        },
        close: () => resolve(undefined),
        error: () => resolve(undefined),
      },
    })
    const text = await promise
    socket.end()
    return text
  } catch {
    return undefined
  } finally {
    clearTimeout(timer)
    close()
  }
}

/** Opens a path to the socket that is short enough: a deep one goes through the open directory. */
function openShortPath(data: string): { path: string; close(): void } {
  const path = join(data, NAME)
  if (Buffer.byteLength(path) <= LONGEST_PATH || process.platform !== 'linux')
    return { path, close: () => undefined }
  const directory = openSync(data, 'r')
  return { path: `/proc/self/fd/${directory}/${NAME}`, close: () => closeSync(directory) }
}
