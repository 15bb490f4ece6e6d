import { toUsd } from '../../kernel/money.ts'
import type { Answer } from '../../language/answer.ts'
import type { ImageCall, Picture } from '../../language/image.ts'
import { countInputTokens, countOutputTokens, type Receipt } from '../../language/usage.ts'

/** Collects the pictures of an answer. Throws the error of a failed answer. */
export async function collectImageResponse(answer: Answer<'image'>, call: ImageCall) {
  const pictures: Picture[] = []
  let receipt: Receipt | null = null
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      if (part.type === 'error') throw part.error
      if (part.type === 'receipt') receipt = part.receipt
      if (part.type === 'picture') pictures.push(part)
    }
  }
  return {
    created: answer.created,
    data: pictures.map(renderPicture),
    ...renderSize(call, pictures[0]),
    ...(receipt ? { usage: renderImageUsage(receipt) } : {}),
  }
}

/** Renders a picture: its bytes in base64, and their type as it was found in them. */
export const renderPicture = ({ data, media_type }: Picture) => ({
  b64_json: data,
  ...(media_type === undefined ? {} : { media_type }),
})

/**
 * Renders the pixels of a picture as OpenAI does, where the call asks for some: they differ where
 * the endpoint draws none of that size.
 */
export const renderSize = ({ params }: ImageCall, picture: Picture | undefined) =>
  params.size && picture?.pixels ? { size: `${picture.pixels.width}x${picture.pixels.height}` } : {}

/** Renders the usage of an answer (wire reference E.1). */
export function renderImageUsage({ usage, cost, is_byok, cost_details }: Receipt) {
  const prompt_tokens = countInputTokens(usage)
  const completion_tokens = countOutputTokens(usage)
  const { input, output } = usage
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens: input.cache_read, audio_tokens: input.audio },
    completion_tokens_details: {
      image_tokens: output.image,
      reasoning_tokens: output.reasoning,
    },
    cost: cost === null ? null : toUsd(cost),
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
