import { usdOf } from '../../kernel/money.ts'
import { inputTokens, outputTokens, type Receipt } from '../../language/usage.ts'

/** The chat usage object (specification, Usage objects; wire reference A.9): totals that include what their details name. */
export function chatUsage({ usage, cost, cost_details, is_byok }: Receipt) {
  const { input, output, prediction } = usage
  const prompt_tokens = inputTokens(usage)
  const completion_tokens = outputTokens(usage)
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    // Left out where it is not known: the official clients take a number or nothing.
    ...(cost === null ? {} : { cost: usdOf(cost) }),
    is_byok,
    prompt_tokens_details: {
      cached_tokens: input.cache_read,
      cache_write_tokens: input.cache_write,
      audio_tokens: input.audio,
      video_tokens: input.video,
    },
    completion_tokens_details: {
      reasoning_tokens: output.reasoning,
      audio_tokens: output.audio,
      image_tokens: output.image,
      ...(prediction ? { accepted_prediction_tokens: prediction.accepted, rejected_prediction_tokens: prediction.rejected } : {}),
    },
    cost_details: cost_details && {
      upstream_inference_cost: usdOf(cost_details.prompt + cost_details.completion),
      upstream_inference_prompt_cost: usdOf(cost_details.prompt),
      upstream_inference_completions_cost: usdOf(cost_details.completion),
    },
  }
}
