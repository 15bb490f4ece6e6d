/** Vectors: what is asked for them, and what comes back. */

import type { CallBase } from './call.ts'
import type { Block } from './message.ts'
import type { CommonPart, Start } from './part.ts'

declare module './work.ts' {
  interface Work {
    embedding: { call: EmbeddingCall; part: EmbeddingPart }
  }
}

/** Things to be made into vectors, one for each of them. */
export interface EmbeddingCall extends CallBase {
  kind: 'embedding'
  inputs: EmbeddingInput[]
  params: EmbeddingParams
  /** Parameters that we do not know by name. They travel as they came. */
  extra: Record<string, unknown>
}

export type EmbeddingInput =
  | { type: 'text'; text: string }
  /** A text as the model's own tokens. */
  | { type: 'tokens'; tokens: number[] }
  /** Texts, pictures and the like that make one vector together. */
  | { type: 'content'; blocks: Block[] }

/** The parameters of wire reference B.3, under their wire names. */
export interface EmbeddingParams {
  dimensions?: number
  /** What the vectors are for: `search_query`, `search_document`, or a provider's own word. */
  input_type?: string
  encoding_format?: 'float' | 'base64'
}

/** Pieces of an answer in vectors. `index` says which input it is the vector of. */
export type EmbeddingPart =
  | Start
  | { type: 'embedding'; index: number; vector: Vector }
  | CommonPart

/** Numbers, or 32-bit floats, the least byte first, in base64: as the provider gave them. */
export type Vector = number[] | string
