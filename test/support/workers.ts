import type { GatewayParts } from '../../src/app/gateway.ts'
import { openDocuments } from '../../src/extensions/documents.ts'
import { openHealer } from '../../src/extensions/healing.ts'
import { openRenderer } from '../../src/observability/destinations/deliveries/renderer.ts'
import { openTokenizers } from '../../src/translation/tokenizers.ts'

/** In milliseconds: a busy machine may take long. */
const PATIENT = { timeoutMs: 120_000 }

const tokenizers = openTokenizers(PATIENT)
const documents = openDocuments(PATIENT)
const healer = openHealer(PATIENT)
const renderer = openRenderer(PATIENT)
const close = () => undefined

/**
 * The Workers of all gateways in a process of tests: a job says all that it needs, and to start one
 * takes 0.2 s of a processor, with a vocabulary 0.7 s. Each starts with its first job.
 */
export const SHARED_WORKERS = {
  tokenizers: { ...tokenizers, close },
  documents: { ...documents, close },
  healer: { ...healer, close },
  openRenderer: () => ({ ...renderer, close }),
} satisfies Partial<GatewayParts>
