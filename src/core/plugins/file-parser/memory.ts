import type { DocumentText } from '../../documents.ts'
import type { Run } from '../../inference/run.ts'
import type { InferenceWorld } from '../../inference/world.ts'
import { retainsNothing } from '../../policy/zdr.ts'

const MEBIBYTE = 1024 * 1024

/** What is known of a document, and how more is remembered. */
interface Memory {
  /** What it says; null if that is not remembered. */
  known: DocumentText | null
  remember(document: DocumentText): void
}

/**
 * Recalls what a document says that the same key has sent before, for those clients and APIs that
 * do not send its annotation back. What a call wants nowhere retained is not remembered.
 */
export function recall(
  { traffic, config, clock }: InferenceWorld,
  run: Run,
  way: 'text' | 'ocr',
  data: string,
): Memory {
  const most = config.plugins.read_documents_mib * MEBIBYTE
  if (most === 0 || run.isDry || retainsNothing(run.policy.zdr, run.call)) return NOTHING
  const hash = Bun.CryptoHasher.hash('sha256', data, 'hex')
  const name = `${way} ${run.actor.key_hash ?? ''} ${hash}`
  return {
    known: traffic.readDocuments.find(name, clock.ticks()),
    remember: document => traffic.readDocuments.keep(name, document, { now: clock.ticks(), most }),
  }
}

const NOTHING: Memory = { known: null, remember: () => undefined }
