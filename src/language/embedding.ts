/** Embeddings: the request for vectors, and the answer. */

import type { CallBase } from './call.ts'
import type { Block } from './message.ts'
import type { CommonPart, StartPart } from './part.ts'

declare module './work.ts' {
  interface Work {
    embedding: { call: EmbeddingCall; part: EmbeddingPart }
  }
}

/** A request to turn each of the inputs into one vector. */
export interface EmbeddingCall extends CallBase {
  kind: 'embedding'
  inputs: EmbeddingInput[]
  params: EmbeddingParams
  /** Parameters that the gateway does not know. They are forwarded unchanged. */
  extra: Record<string, unknown>
}

export type EmbeddingInput =
  | { type: 'text'; text: string }
  /** A text as the model's own tokens. */
  | { type: 'tokens'; tokens: number[] }
  /** Texts, pictures and other media that make one vector together. */
  | { type: 'content'; blocks: Block[] }

/** The parameters of wire reference B.3, under their wire names. */
export interface EmbeddingParams {
  dimensions?: number
  /** The purpose of the vectors: `search_query`, `search_document`, or a provider's own value. */
  input_type?: string
  encoding_format?: 'float' | 'base64'
}

/** A piece of an embeddings answer. `index` is the position of the input that the vector is for. */
export type EmbeddingPart =
  | StartPart
  | { type: 'embedding'; index: number; vector: Vector }
  | CommonPart

/** A vector as the provider returned it: numbers, or little-endian 32-bit floats in base64. */
export type Vector = number[] | string
