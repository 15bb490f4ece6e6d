import { type GatewayError, invalid, unavailable } from '../base/errors.ts'
import { type Asker, JobError, JobWorker, type JobWorkerOptions } from '../base/job-worker.ts'
import { startWorkerAtOnce } from '../base/worker.ts'
import type { DocumentText } from '../engine/traffic/read-documents.ts'
import { mayBeDocument } from './documents/detect.ts'

/**
 * What the Worker answers: the text, or why there is none. An `unknown` document is none of the
 * types above.
 */
export type DocumentResult = DocumentText | { problem: DocumentProblem }
export type DocumentProblem = 'unknown' | 'damaged' | 'encrypted'

/** Reads documents: bytes in, text out. */
export interface Documents {
  /**
   * Reads the text of a document, whose type is detected from its bytes. The bytes are moved: they
   * cannot be used afterwards. Null for bytes that are none of the types. Throws 400 for a document
   * that is damaged, encrypted or too large, or takes too long, and 503 while too many are waiting.
   * `name` is how a message calls the document.
   */
  read(bytes: Uint8Array<ArrayBuffer>, name: string, asker?: Asker): Promise<DocumentText | null>
  /** Ends the Worker. Documents that are not read yet reject. */
  close(): void
}

const MEBIBYTE = 1024 * 1024

/** The largest document, in bytes. */
export const LARGEST_DOCUMENT = 32 * MEBIBYTE

/** How long reading one document may take, in milliseconds. */
const TIMEOUT_MS = 15_000
const IDLE_MS = 60_000
const MAX_WAITING = 64
const MAX_WAITING_SIZE = 256 * MEBIBYTE

/** Opens the reader. The first document starts the Worker, which no other connection waits for. */
export function openDocuments(replace: Partial<JobWorkerOptions> = {}): Documents {
  const worker = new JobWorker<Uint8Array, DocumentResult>({
    startWorker,
    timeoutMs: TIMEOUT_MS,
    idleMs: IDLE_MS,
    maxWaiting: MAX_WAITING,
    maxWaitingSize: MAX_WAITING_SIZE,
    ...replace,
  })
  return {
    async read(bytes, name, asker) {
      if (bytes.length > LARGEST_DOCUMENT)
        throw invalid(`${name}: expected at most ${LARGEST_DOCUMENT / MEBIBYTE} MiB`)
      if (!mayBeDocument(bytes)) return null
      const result = await runJob(worker, bytes, name, asker)
      if (!('problem' in result)) return result
      if (result.problem === 'unknown') return null
      throw invalid(`${name}: ${SENTENCES[result.problem]}`)
    },
    close: () => worker.close(),
  }
}

const SENTENCES: Record<Exclude<DocumentProblem, 'unknown'>, string> = {
  damaged: 'expected a document that can be read; this one is damaged',
  encrypted: 'expected a document without a password',
}

async function runJob(
  worker: JobWorker<Uint8Array, DocumentResult>,
  bytes: Uint8Array<ArrayBuffer>,
  name: string,
  asker?: Asker,
): Promise<DocumentResult> {
  try {
    const owned = bytes.length === bytes.buffer.byteLength ? bytes : bytes.slice()
    return await worker.run(owned, owned.length, [owned.buffer], asker)
  } catch (thrown) {
    throw toError(thrown, name)
  }
}

// A Worker that breaks does so because of the document: it ran out of memory.
function toError(thrown: unknown, name: string): GatewayError {
  const problem = thrown instanceof JobError ? thrown.problem : 'broken'
  if (problem === 'busy' || problem === 'gone')
    return unavailable('Too many documents are waiting to be read')
  if (problem === 'closed') return unavailable('The gateway is shutting down')
  return invalid(`${name}: expected a document that can be read in time and memory`)
}

/** Starts the Worker that reads documents. It does not keep the process alive. */
export const startWorker = (): Worker => startWorkerAtOnce(getWorkerUrl())

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './extensions/documents/worker.ts' : './documents/worker.ts',
    import.meta.url,
  )
