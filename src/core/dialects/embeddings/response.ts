import { decodeFloats, encodeFloats } from '../../kernel/floats.ts'
import { toUsd } from '../../kernel/money.ts'
import type { Answer } from '../../language/answer.ts'
import type { Vector } from '../../language/embedding.ts'
import { countInputTokens, type Receipt } from '../../language/usage.ts'

/**
 * Collects the parts of an answer into one list of vectors in the encoding that the client
 * requested. Throws the error of a failed answer.
 */
export async function collectEmbeddingsResponse(
  answer: Answer<'embedding'>,
  encoding: 'float' | 'base64',
) {
  const data: { object: 'embedding'; index: number; embedding: Vector }[] = []
  let receipt: Receipt | null = null
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      if (part.type === 'error') throw part.error
      if (part.type === 'receipt') receipt = part.receipt
      if (part.type === 'embedding')
        data.push({
          object: 'embedding',
          index: part.index,
          embedding: encodeVector(part.vector, encoding),
        })
    }
  }
  return {
    id: answer.id,
    object: 'list' as const,
    data,
    model: answer.model,
    provider: answer.provider,
    ...(receipt ? { usage: renderUsage(receipt) } : {}),
  }
}

function encodeVector(vector: Vector, encoding: 'float' | 'base64'): Vector {
  if (encoding === 'base64') return typeof vector === 'string' ? vector : encodeFloats(vector)
  return typeof vector === 'string' ? decodeFloats(vector) : vector
}

/** Renders the usage of embeddings (wire reference B.3). Details need at least two token types. */
function renderUsage({ usage, cost, cost_details, is_byok }: Receipt) {
  const prompt_tokens = countInputTokens(usage)
  const { audio, video } = usage.input
  const details = {
    text_tokens: prompt_tokens - audio - video,
    audio_tokens: audio,
    video_tokens: video,
  }
  const counted = Object.entries(details).filter(([, tokens]) => tokens > 0)
  return {
    prompt_tokens,
    total_tokens: prompt_tokens,
    ...(counted.length > 1 ? { prompt_tokens_details: Object.fromEntries(counted) } : {}),
    // Left out if unknown: the official clients accept a number or nothing.
    ...(cost === null ? {} : { cost: toUsd(cost) }),
    is_byok,
    ...(cost_details
      ? {
          cost_details: {
            upstream_inference_cost: toUsd(cost_details.prompt + cost_details.completion),
            upstream_inference_prompt_cost: toUsd(cost_details.prompt),
            upstream_inference_completions_cost: toUsd(cost_details.completion),
          },
        }
      : {}),
  }
}
