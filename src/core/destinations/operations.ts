import type { Kind } from '../language/work.ts'

/**
 * What kinds of work are called where a trace is read. A kind that has no word of its own there is
 * what it is most like: receivers know models that generate, that embed and that rank.
 */
export type Words = Readonly<Record<Kind, string>>

/** Completes the words of a receiver: what only generates has the word of text. */
export const nameKinds = (text: string, embedding: string, rerank: string): Words => ({
  ...{ text, image: text, speech: text, transcription: text, video: text },
  ...{ embedding, rerank },
})

/**
 * `gen_ai.operation.name` (OpenTelemetry, "Semantic conventions for generative AI"). Reranking has
 * no name there, and one of its own is allowed.
 */
export const OPERATIONS: Words = {
  ...nameKinds('generate_content', 'embeddings', 'rerank'),
  text: 'chat',
}

/** `gen_ai.output.type`, where the conventions have one. */
export const OUTPUT_TYPES: Partial<Words> = { image: 'image', speech: 'speech' }

/** Leaves out the costs of a model whose price is not known: they are not $0. */
export const omitNull = (costs: Record<string, number | null>): Record<string, number> =>
  Object.fromEntries(
    Object.entries(costs).flatMap(([name, cost]) => (cost === null ? [] : [[name, cost]])),
  )
