import { invalid } from '../../base/errors.ts'
import { hasFloats } from '../../base/floats.ts'
import { getOwn } from '../../base/json.ts'
import type {
  EmbeddingCall,
  EmbeddingInput,
  EmbeddingPart,
  Vector,
} from '../../language/embedding.ts'
import type { Block } from '../../language/message.ts'
import type { Usage } from '../../language/usage.ts'
import { unreadableAnswer } from './failure.ts'
import type { Protocol } from './protocol.ts'

/**
 * What the embedding protocols share: inputs have no names that would need a field, and a streamed
 * answer is an error.
 */
export const embeddingDefaults = {
  framing: 'sse',
  acceptsNames: true,
  createReader: () => {
    throw unreadableAnswer()
  },
} satisfies Partial<Protocol<'embedding'>>

/**
 * Throws 400 for more inputs than the provider takes at once: calls are divided before that. Half of
 * the vectors help no caller.
 */
export function assertInputCount(most: number, { inputs }: EmbeddingCall): void {
  if (inputs.length <= most) return
  throw invalid(
    `input: expected at most ${most} at a time for this model’s provider, found ${inputs.length}`,
    'input',
  )
}

/**
 * Returns the inputs as texts, for providers that only take text. Throws 400 for any other kind.
 */
export const readTexts = ({ inputs }: EmbeddingCall): string[] => inputs.map(readText)

function readText(input: EmbeddingInput): string {
  return listBlocks(input)
    .map(block => (block.type === 'text' ? block.text : refuseContent(block.type)))
    .join('\n')
}

/**
 * Returns the content of one input. Throws 400 for tokens, which only the model itself can decode.
 */
export function listBlocks(input: EmbeddingInput): Block[] {
  if (input.type === 'content') return input.blocks
  return input.type === 'text' ? [{ type: 'text', text: input.text }] : refuseContent('tokens')
}

/** Throws 400 naming a kind of content that the provider cannot embed. */
export function refuseContent(kind: string): never {
  throw invalid(
    `input: ${kind} is a kind of content that this model’s provider does not take`,
    'input',
  )
}

/** The purposes of vectors that providers distinguish. */
export type Purpose = 'query' | 'document' | 'similarity' | 'classification' | 'clustering'

/**
 * The purposes by `input_type`: Cohere's values, which the public API names, and other providers'.
 */
const PURPOSES: Record<string, Purpose> = {
  query: 'query',
  search_query: 'query',
  retrieval_query: 'query',
  document: 'document',
  passage: 'document',
  search_document: 'document',
  retrieval_document: 'document',
  retrieval_passage: 'document',
  similarity: 'similarity',
  semantic_similarity: 'similarity',
  text_matching: 'similarity',
  classification: 'classification',
  clustering: 'clustering',
  separation: 'clustering',
}

/** Returns the purpose that an `input_type` names; undefined for a value of one provider alone. */
export function parsePurpose(input_type: string | undefined): Purpose | undefined {
  const name = input_type?.toLowerCase().replace(/[.-]/g, '_')
  return getOwn(PURPOSES, name)
}

/** The answer of a provider. */
interface ProviderAnswer {
  upstream_id?: string | null
  /** The vectors in the order of the inputs. */
  vectors: unknown[]
  usage: Usage | undefined
}

/** Returns an answer's parts. Throws `provider_unavailable` unless each input has one vector. */
export function toEmbeddingParts(
  { inputs }: EmbeddingCall,
  { upstream_id = null, vectors, usage }: ProviderAnswer,
): EmbeddingPart[] {
  if (vectors.length !== inputs.length) throw unreadableAnswer()
  return [
    { type: 'start', upstream_id, system_fingerprint: null, service_tier: null },
    ...Array.from(
      vectors,
      (vector, index): EmbeddingPart => ({ type: 'embedding', index, vector: parseVector(vector) }),
    ),
    ...(usage ? [{ type: 'usage' as const, usage }] : []),
  ]
}

function parseVector(value: unknown): Vector {
  if (typeof value === 'string' && BASE64.test(value) && hasFloats(value)) return value
  if (Array.isArray(value) && value.length > 0 && value.every(Number.isFinite)) return value
  throw unreadableAnswer()
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
