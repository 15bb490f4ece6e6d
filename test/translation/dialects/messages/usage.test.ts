import { expect, test } from 'bun:test'
import { createTextUsage, type Usage } from '../../../../src/language/usage.ts'
import {
  renderCosts,
  renderCounts,
  renderMessageUsage,
} from '../../../../src/translation/dialects/messages.ts'

const usage: Usage = {
  input: { text: 10, cache_read: 100, cache_write: 20, cache_write_1h: 3, audio: 4, video: 5 },
  output: { text: 7, reasoning: 6, audio: 0, image: 1 },
  prediction: null,
  units: { search: 2 },
}

test('trap 85: input_tokens excludes tokens read from or written to a cache', () => {
  expect(renderCounts(usage, 1)).toEqual({
    input_tokens: 19,
    cache_creation_input_tokens: 23,
    cache_read_input_tokens: 100,
    cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 3 },
    output_tokens: 14,
    output_tokens_details: { thinking_tokens: 6 },
    server_tool_use: { web_search_requests: 2, web_fetch_requests: 1 },
  })
  expect(renderCounts(createTextUsage(1, 2), 0).server_tool_use).toBeNull()
})

test('a service tier is included if Anthropic’s clients know it', () => {
  expect(renderMessageUsage(usage, 0, 'priority')).toMatchObject({
    service_tier: 'priority',
    inference_geo: null,
  })
  expect(renderMessageUsage(usage, 0, 'flex').service_tier).toBeNull()
  expect(renderMessageUsage(usage, 0, null).service_tier).toBeNull()
})

test('costs are in dollars, or null', () => {
  const receipt = { usage, usageSource: 'exact' as const, is_byok: false }
  expect(
    renderCosts({ ...receipt, cost: 3_000n, cost_details: { prompt: 1_000n, completion: 2_000n } }),
  ).toEqual({
    cost: 0.000003,
    is_byok: false,
    cost_details: {
      upstream_inference_cost: 0.000003,
      upstream_inference_prompt_cost: 0.000001,
      upstream_inference_completions_cost: 0.000002,
    },
  })
  expect(renderCosts({ ...receipt, cost: null, cost_details: null })).toEqual({
    cost: null,
    is_byok: false,
    cost_details: null,
  })
})
