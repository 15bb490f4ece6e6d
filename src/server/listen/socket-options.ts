import { findLowestFree } from '../../core/kernel/descriptors.ts'
import { IPPROTO_TCP, SOL_SOCKET, type SocketCalls } from '../../core/kernel/socket-calls.ts'

/** In seconds: the silence before a client's system is asked, and between further questions. */
const IDLE = 30
const INTERVAL = 10

/** After so many questions without an answer the connection is over. */
const QUESTIONS = 3

/** In bytes, half of what the system keeps of an answer that its client does not take. */
const UNSENT = 96 * 1024

// Numbers of Linux: socket(7) and tcp(7).
const OPTIONS = [
  [SOL_SOCKET, 7, UNSENT],
  [SOL_SOCKET, 9, 1],
  [IPPROTO_TCP, 4, IDLE],
  [IPPROTO_TCP, 5, INTERVAL],
  [IPPROTO_TCP, 6, QUESTIONS],
] as const

/**
 * Sets what Bun has no setting for, but connections inherit when they are accepted from the socket
 * that listens on the port. The system asks clients that are silent whether they are still there
 * (TCP keep-alive, RFC 1122, 4.2.3.6): one that has vanished gives its descriptor back after a minute.
 * Of an answer that its client does not take it keeps little: by itself, up to 4 MiB.
 */
export function setSocketOptions(calls: SocketCalls, port: number): void {
  // Soon after the start it is among the first.
  for (let socket = 0; socket < Math.min(findLowestFree(), MOST_DESCRIPTORS); socket++)
    if (calls.isListening(socket, port))
      for (const [level, name, value] of OPTIONS) calls.setOption(socket, level, name, value)
}

const MOST_DESCRIPTORS = 10_000
