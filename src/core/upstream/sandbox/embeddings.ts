import { estimateTokenCount } from 'tokenx'

import type { Json } from '../../kernel/json.ts'

const DIMENSIONS = 8
const MAX_DIMENSIONS = 1024

/**
 * Answers like an OpenAI embeddings server, without any notion of meaning: each word has a
 * direction, and a text is the sum of its words, normalized to length 1. The same text always has
 * the same vector, and texts that share words lie near each other.
 */
export function answerEmbeddings({ input, dimensions }: Json) {
  const inputs = listInputs(input).map(renderInput)
  const size = typeof dimensions === 'number' ? Math.min(dimensions, MAX_DIMENSIONS) : DIMENSIONS
  const prompt_tokens = inputs.reduce((sum, text) => sum + estimateTokenCount(text), 0)
  return {
    object: 'list',
    model: 'embed',
    data: inputs.map((text, index) => ({
      object: 'embedding',
      index,
      embedding: computeVector(text, size),
    })),
    usage: { prompt_tokens, total_tokens: prompt_tokens },
  }
}

// The input is a text, a list of tokens, or a list of either.
const listInputs = (input: unknown): unknown[] =>
  Array.isArray(input) && typeof input[0] !== 'number' ? input : [input]

const renderInput = (input: unknown): string =>
  typeof input === 'string' ? input : JSON.stringify(input)

function computeVector(text: string, size: number): number[] {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text]
  const sum = Array.from({ length: size }, (_, axis) =>
    words.reduce((total, word) => total + computeCoordinate(word, axis), 0),
  )
  const length = Math.hypot(...sum) || 1
  return sum.map(value => Math.fround(value / length))
}

const HALF = 2 ** 31

/** Computes a word's coordinate on an axis, from -1 to 1, always the same. */
const computeCoordinate = (word: string, axis: number): number =>
  Bun.hash.xxHash32(word, axis) / HALF - 1
