import { yieldToEventLoop } from '../../base/clock.ts'
import type { Json } from '../../base/json.ts'
import { estimateByRuleOfThumb } from '../../translation/tokenizers/rule-of-thumb.ts'

const DIMENSIONS = 8
const MAX_DIMENSIONS = 1024

/** The most numbers of one answer: its vectors times their dimensions. */
const MOST_NUMBERS = 256 * 1024
/** The most characters of all texts together, times the dimensions: every word is in each. */
const MOST_WORK = 16 * 1024 * 1024
/** How many words times dimensions are computed before others get their turn. */
const TERMS_PER_TURN = 64 * 1024

/**
 * Returns why the sandbox computes no vectors for this body, or undefined if it does: it costs
 * nothing, so it must not take much either.
 */
export function findEmbeddingsRefusal({ input, dimensions }: Json): string | undefined {
  const inputs = listInputs(input)
  const size = typeof dimensions === 'number' ? dimensions : DIMENSIONS
  if (size > MAX_DIMENSIONS) return `The sandbox has at most ${MAX_DIMENSIONS} dimensions`
  if (inputs.length * size > MOST_NUMBERS)
    return `The sandbox computes at most ${MOST_NUMBERS} numbers in one answer`
  const characters = inputs.reduce<number>((sum, one) => sum + renderInput(one).length, 0)
  const most = Math.floor(MOST_WORK / size)
  if (characters > most)
    return `The sandbox reads at most ${most} characters for vectors of ${size} dimensions`
  return undefined
}

/**
 * Answers like an OpenAI embeddings server, without any notion of meaning: each word has a
 * direction, and a text is the sum of its words, normalized to length 1. The same text always has
 * the same vector, and texts that share words lie near each other. Others get their turn while it
 * computes.
 */
export async function answerEmbeddings({ input, dimensions }: Json) {
  const inputs = listInputs(input).map(renderInput)
  const size = typeof dimensions === 'number' ? dimensions : DIMENSIONS
  const prompt_tokens = estimateByRuleOfThumb(inputs)
  return {
    object: 'list',
    model: 'embed',
    data: (await computeVectors(inputs, size)).map((embedding, index) => ({
      object: 'embedding',
      index,
      embedding,
    })),
    usage: { prompt_tokens, total_tokens: prompt_tokens },
  }
}

// The input is a text, a list of tokens, or a list of either.
const listInputs = (input: unknown): unknown[] =>
  Array.isArray(input) && typeof input[0] !== 'number' ? input : [input]

const renderInput = (input: unknown): string =>
  typeof input === 'string' ? input : JSON.stringify(input)

async function computeVectors(texts: string[], size: number): Promise<number[][]> {
  const vectors: number[][] = []
  let terms = 0
  for (const text of texts) {
    const sum = new Array<number>(size).fill(0)
    for (const word of splitWords(text)) {
      addWord(sum, word)
      terms += size
      if (terms < TERMS_PER_TURN) continue
      terms = 0
      await yieldToEventLoop()
    }
    vectors.push(normalize(sum))
  }
  return vectors
}

const splitWords = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [text]

function addWord(sum: number[], word: string): void {
  for (let axis = 0; axis < sum.length; axis++)
    sum[axis] = (sum[axis] ?? 0) + computeCoordinate(word, axis)
}

function normalize(sum: number[]): number[] {
  const length = Math.sqrt(sum.reduce((squares, value) => squares + value * value, 0)) || 1
  return sum.map(value => Math.fround(value / length))
}

const HALF = 2 ** 31

/** Computes a word's coordinate on an axis, from -1 to 1, always the same. */
const computeCoordinate = (word: string, axis: number): number =>
  Bun.hash.xxHash32(word, axis) / HALF - 1
