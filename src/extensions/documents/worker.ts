/** The Worker's side: reads documents off the server's event loop. */

import { serveJobs } from '../../base/worker/serve-jobs.ts'
import { readDocument } from './reading.ts'

const startDocument = boundMemory()

serveJobs(async (document: Uint8Array) => {
  startDocument()
  postMessage(await readDocument(document))
})

const MEBIBYTE = 1024 * 1024

/** The largest array that reading a document may make: 32 MiB of content, doubled from one byte. */
const LARGEST_ARRAY = 32 * MEBIBYTE
/** Smaller arrays are not counted. */
const LARGE_ARRAY = MEBIBYTE
/** What the large arrays of one document may come to. */
const LARGEST_SUM = 256 * MEBIBYTE

/**
 * Bounds what the libraries of this thread may take for one document: a few kilobytes inflate to
 * gigabytes, and a reader of PDF takes whatever it is given. From here on a larger array, and one
 * that is too much in sum, throws `RangeError`, which makes the document a damaged one. For a
 * Worker of its own. Returns the function that starts the sum anew.
 */
function boundMemory(): () => void {
  let sum = 0
  const count = (size: unknown) => {
    if (typeof size !== 'number' || size < LARGE_ARRAY) return
    sum += size
    if (size > LARGEST_ARRAY || sum > LARGEST_SUM) throw new RangeError('The document is too large')
  }
  globalThis.Uint8Array = new Proxy(Uint8Array, {
    construct(target, parameters, newTarget) {
      count(parameters[0])
      return Reflect.construct(target, parameters, newTarget)
    },
  })
  // It inflates to any size in native memory. Without it the reader inflates by itself.
  Reflect.deleteProperty(globalThis, 'DecompressionStream')
  return () => {
    sum = 0
  }
}
