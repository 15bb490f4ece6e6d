import { describe, expect, test } from 'bun:test'
import {
  createTextUsage,
  readUnits,
  UNIT_ROWS,
  UNITS,
  type Units,
  type Usage,
} from '../../../src/language/usage.ts'
import { computeCost, toExactPrices } from '../../../src/resources/prices.ts'
import { readUsage as anthropic } from '../../../src/translation/protocols/anthropic-messages.ts'
import { readUsage as bedrock } from '../../../src/translation/protocols/bedrock-converse.ts'
import { readUsage as cohere } from '../../../src/translation/protocols/cohere-chat.ts'
import { readUsage as gemini } from '../../../src/translation/protocols/gemini/usage.ts'
import { readUsage as openai } from '../../../src/translation/protocols/openai-chat/reader.ts'
import { readUsage as responses } from '../../../src/translation/protocols/openai-responses/reader.ts'
import { createSeededIntegers, SEED } from '../../support/random.ts'

/** Hostile values in place of a count. */
const HOSTILE: unknown[] = [
  0,
  1,
  -1,
  -0,
  0.5,
  1e9,
  1e9 + 1,
  2 ** 31,
  2 ** 53,
  2 ** 63,
  1e308,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  '10',
  '-10',
  null,
  undefined,
  true,
  [],
  [5],
  {},
  { valueOf: 7 },
]

/**
 * Every field of a provider's usage, by the readers of each family; `x` is replaced by a hostile
 * value.
 */
const x = Symbol('count')
const READERS: [name: string, read: (given: unknown) => Usage | undefined, shape: object][] = [
  [
    'openai-chat',
    openai,
    {
      prompt_tokens: x,
      completion_tokens: x,
      total_tokens: x,
      prompt_tokens_details: {
        cached_tokens: x,
        cache_write_tokens: x,
        audio_tokens: x,
        video_tokens: x,
      },
      completion_tokens_details: {
        reasoning_tokens: x,
        audio_tokens: x,
        image_tokens: x,
        accepted_prediction_tokens: x,
      },
    },
  ],
  [
    'anthropic-messages',
    anthropic,
    {
      input_tokens: x,
      output_tokens: x,
      cache_creation_input_tokens: x,
      cache_read_input_tokens: x,
      cache_creation: { ephemeral_1h_input_tokens: x },
      output_tokens_details: { thinking_tokens: x },
      server_tool_use: { web_search_requests: x },
      iterations: Array.from({ length: 1_000 }, () => ({
        type: 'message',
        input_tokens: x,
        output_tokens: x,
      })),
    },
  ],
  [
    'gemini',
    given => gemini(given, 3),
    {
      promptTokenCount: x,
      candidatesTokenCount: x,
      thoughtsTokenCount: x,
      toolUsePromptTokenCount: x,
      cachedContentTokenCount: x,
      promptTokensDetails: [{ modality: 'AUDIO', tokenCount: x }],
      cacheTokensDetails: [{ modality: 'AUDIO', tokenCount: x }],
      candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: x }],
    },
  ],
  [
    'bedrock-converse',
    bedrock,
    {
      inputTokens: x,
      outputTokens: x,
      cacheReadInputTokens: x,
      cacheWriteInputTokens: x,
      cacheDetails: [{ ttl: '1h', inputTokens: x }],
    },
  ],
  [
    'cohere-chat',
    cohere,
    {
      billed_units: { input_tokens: x, output_tokens: x },
      tokens: { input_tokens: x, output_tokens: x },
      cached_tokens: x,
    },
  ],
  [
    'openai-responses',
    given => responses(given, 3),
    {
      input_tokens: x,
      output_tokens: x,
      input_tokens_details: { cached_tokens: x, cache_write_tokens: x, audio_tokens: x },
      output_tokens_details: { reasoning_tokens: x, audio_tokens: x, image_tokens: x },
    },
  ],
  // The counts of the readers of other kinds of work, all at once: no answer has more.
  [
    'units',
    given => ({ ...createTextUsage(1e9, 1e9), ...readUnits(given as Units) }),
    Object.fromEntries(Object.keys(UNITS).map(unit => [unit, x])),
  ],
]

/** Returns the shape with a value in each place. */
function filled(shape: unknown, value: () => unknown): unknown {
  if (shape === x) return value()
  if (typeof shape !== 'object' || shape === null) return shape
  if (Array.isArray(shape)) return shape.map(one => filled(one, value))
  return Object.fromEntries(Object.entries(shape).map(([name, one]) => [name, filled(one, value)]))
}

/** The highest possible price: what fits at this one always fits. */
const DEAREST = toExactPrices({
  ...{ prompt: 10_000, completion: 10_000, cache_write_1h: 10_000, request: 1 },
  ...Object.fromEntries(UNIT_ROWS.map(({ price, maxPrice }) => [price, maxPrice])),
})
const ROUNDS = 300

describe('A-15 hostile counts of a provider', () => {
  test.each(READERS)(
    '%s: the cost is never negative and fits a column of 64 bits',
    (_, read, shape) => {
      const random = createSeededIntegers(SEED)
      let counted = 0
      for (let round = 0; round < ROUNDS; round++) {
        // Each value in all places first, then all of them mixed.
        const all = HOSTILE[round]
        const usage = read(
          filled(shape, () => (round < HOSTILE.length ? all : HOSTILE[random(HOSTILE.length)])),
        )
        if (!usage) continue
        counted += 1
        const { cost, cost_details } = computeCost(usage, DEAREST)
        const amounts = [cost, cost_details?.prompt, cost_details?.completion].map(
          nanos => nanos ?? -1n,
        )
        if (amounts.some(nanos => nanos < 0n || nanos !== BigInt.asIntN(64, nanos)))
          expect({ usage, amounts }).toBeUndefined()
      }
      expect(counted).toBeGreaterThan(5)
    },
  )
})
