import { findLowestFree } from './descriptors.ts'
import { readDescriptorLimit } from './machine.ts'

/** So many file descriptors are to be free: a Worker takes about ten, and what it opens. */
const ROOM = 32
/** In milliseconds: a Worker starts in about five. */
const PATIENCE = 100

/**
 * Whether a Worker may be started: Bun ends the whole process where one finds no file descriptor as
 * it starts.
 */
export function hasRoomForWorker(): boolean {
  const lowest = findLowestFree()
  return Number.isFinite(lowest) && lowest + ROOM <= LIMIT
}

// Read at once: later there may be no descriptor to read it with.
const LIMIT = readDescriptorLimit()

/**
 * Starts a Worker that serves jobs, and waits until its thread runs: meanwhile no connection can take
 * the file descriptors that it needs. It does not keep the process alive. Throws where too few are
 * left.
 */
export function startWorkerAtOnce(url: URL, options: WorkerOptions = {}): Worker {
  if (!hasRoomForWorker()) throw new Error('Too few file descriptors are left for a Worker')
  const worker = new Worker(url.href, { ref: false, ...options } as WorkerOptions)
  const isRunning = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  worker.postMessage(isRunning.buffer)
  Atomics.wait(isRunning, 0, 0, PATIENCE)
  return worker
}
