import { toUsd } from '../../kernel/money.ts'
import type { ServerToolCounts } from '../../language/server-tools.ts'
import {
  countInputTokens,
  countOutputTokens,
  getSearchCount,
  type Receipt,
} from '../../language/usage.ts'
import { renderToolCounts } from '../server-tools.ts'

/**
 * Renders the usage of a response (specification, Usage objects; wire reference D.5). The totals
 * include the tokens that their details name.
 */
export function renderUsage({ usage, cost, cost_details, is_byok, serverTools }: Receipt) {
  const { input, output } = usage
  const input_tokens = countInputTokens(usage)
  const output_tokens = countOutputTokens(usage)
  const web_search_requests = getSearchCount(usage)
  return {
    input_tokens,
    input_tokens_details: {
      cached_tokens: input.cache_read,
      cache_write_tokens: input.cache_write + input.cache_write_1h,
    },
    output_tokens,
    output_tokens_details: { reasoning_tokens: output.reasoning },
    total_tokens: input_tokens + output_tokens,
    cost: cost === null ? null : toUsd(cost),
    is_byok,
    ...(cost_details
      ? {
          cost_details: {
            upstream_inference_cost: toUsd(cost_details.prompt + cost_details.completion),
            upstream_inference_input_cost: toUsd(cost_details.prompt),
            upstream_inference_output_cost: toUsd(cost_details.completion),
          },
        }
      : {}),
    ...renderToolUse(serverTools, web_search_requests),
  }
}

// Searches of the provider itself are counted by it.
function renderToolUse(own: ServerToolCounts | undefined, searches: number | null) {
  if (!own)
    return searches === null ? {} : { server_tool_use_details: { web_search_requests: searches } }
  const counts = renderToolCounts({ ...own, searches: own.searches + (searches ?? 0) })
  return { server_tool_use_details: counts }
}
