import type { EmbeddingCall, EmbeddingPart, Vector } from '../../language/embedding.ts'
import type { Usage } from '../../language/usage.ts'
import { unreadable } from '../failure.ts'

/** What a provider gave. */
export interface Given {
  upstream_id?: string | null
  /** The vectors in the order of the inputs. */
  vectors: unknown[]
  usage: Usage | undefined
}

/** The parts of an answer. Throws `provider_unavailable` unless it has one vector for each input. */
export function answerOf({ inputs }: EmbeddingCall, { upstream_id = null, vectors, usage }: Given): EmbeddingPart[] {
  if (vectors.length !== inputs.length) throw unreadable()
  return [
    { type: 'start', upstream_id, system_fingerprint: null, service_tier: null },
    ...Array.from(vectors, (vector, index): EmbeddingPart => ({ type: 'embedding', index, vector: vectorOf(vector) })),
    ...(usage ? [{ type: 'usage' as const, usage }] : []),
  ]
}

function vectorOf(given: unknown): Vector {
  if (typeof given === 'string' && given !== '' && BASE64.test(given)) return given
  if (Array.isArray(given) && given.length > 0 && given.every(Number.isFinite)) return given
  throw unreadable()
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
