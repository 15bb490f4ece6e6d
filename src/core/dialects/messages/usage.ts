import { toUsd } from '../../kernel/money.ts'
import type { ServerToolCounts } from '../../language/server-tools.ts'
import {
  countOutputTokens,
  getSearchCount,
  type Receipt,
  type Usage,
} from '../../language/usage.ts'

const PUBLIC_TIERS = ['standard', 'priority', 'batch']

/**
 * Renders Anthropic's token counts (wire reference M). `input_tokens` excludes tokens read from or
 * written to a cache (translation trap 85). Fetched pages are counted from the content.
 */
export function renderCounts(usage: Usage, webFetches: number, serverTools?: ServerToolCounts) {
  const { input, output } = usage
  const own = serverTools?.searches || null
  const endedBy = serverTools?.endedBy
  const web_search_requests =
    own === null ? getSearchCount(usage) : own + (getSearchCount(usage) ?? 0)
  const web_fetch_requests = webFetches + (serverTools?.fetches ?? 0)
  return {
    input_tokens: input.text + input.audio + input.video,
    cache_creation_input_tokens: input.cache_write + input.cache_write_1h,
    cache_read_input_tokens: input.cache_read,
    cache_creation: {
      ephemeral_5m_input_tokens: input.cache_write,
      ephemeral_1h_input_tokens: input.cache_write_1h,
    },
    output_tokens: countOutputTokens(usage),
    output_tokens_details: { thinking_tokens: output.reasoning },
    server_tool_use:
      web_search_requests === null && web_fetch_requests === 0 && endedBy === undefined
        ? null
        : {
            ...{ web_search_requests: web_search_requests ?? 0, web_fetch_requests },
            ...(endedBy === undefined ? {} : { ended_by: endedBy }),
          },
  }
}

/** Renders the usage of a message, with the service tier if Anthropic's clients know it. */
export const renderMessageUsage = (
  usage: Usage,
  web_fetch_requests: number,
  service_tier: string | null,
  serverTools?: ServerToolCounts,
) => ({
  ...renderCounts(usage, web_fetch_requests, serverTools),
  inference_geo: null,
  service_tier: service_tier !== null && PUBLIC_TIERS.includes(service_tier) ? service_tier : null,
})

/** Renders the cost of the call in dollars, as fields next to the counts. */
export const renderCosts = ({ cost, cost_details, is_byok }: Receipt) => ({
  cost: cost === null ? null : toUsd(cost),
  is_byok,
  cost_details: cost_details && {
    upstream_inference_cost: toUsd(cost_details.prompt + cost_details.completion),
    upstream_inference_prompt_cost: toUsd(cost_details.prompt),
    upstream_inference_completions_cost: toUsd(cost_details.completion),
    ...(cost_details.tools === undefined ? {} : { server_tool_cost: toUsd(cost_details.tools) }),
  },
})
