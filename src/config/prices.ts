import { type Static, type TNumber, type TOptional, Type } from '@sinclair/typebox'
import { closed, oneOf } from '../base/schema-builders.ts'
import { UNIT_ROWS, type UnitPrice } from '../language/usage.ts'

// No model costs ten thousand dollars per million tokens: such a price was entered per token or in
// cents.
const Usd = { minimum: 0, maximum: 10_000 }
const Rate = (description: string) => Type.Optional(Type.Number({ ...Usd, description }))
// A search costs cents. Ten dollars is the price of a thousand searches.
function Each(unit: string, maximum = 1) {
  return Type.Optional(Type.Number({ minimum: 0, maximum, description: `USD for one ${unit}` }))
}

const PER_UNIT = {} as Record<UnitPrice, TOptional<TNumber>>
for (const { price, description: unit, maxPrice } of UNIT_ROWS)
  PER_UNIT[price] = Each(unit, maxPrice)

/** The words for a picture that may have a price of its own (wire reference E.1). */
const QUALITIES = ['low', 'medium', 'high', 'xhigh', 'max'] as const
const TIERS = ['512', '1K', '2K', '4K'] as const

const RATES = {
  cache_read: Rate('Input read from the cache; same as prompt when absent'),
  cache_write: Rate('Input written to the cache; same as prompt when absent'),
  cache_write_1h: Rate('Input written to the cache for an hour; same as cache_write when absent'),
  reasoning: Rate('Reasoning; same as completion when absent'),
  audio: Rate('Audio input; same as prompt when absent'),
  audio_output: Rate('Audio output; same as completion when absent'),
  image: Rate('Image input, where the provider counts it separately'),
  image_output: Rate('Image output; same as completion when absent'),
}

const PriceTier = Type.Object(
  {
    above: Type.Integer({
      minimum: 1,
      description: 'Applies when the whole input has more tokens than this',
    }),
    prompt: Rate('Input'),
    completion: Rate('Output'),
    ...RATES,
  },
  closed,
)

const PriceVariant = Type.Object(
  {
    quality: Type.Optional(
      Type.Union(oneOf(...QUALITIES).anyOf, { description: 'Of this quality' }),
    ),
    resolution: Type.Optional(
      Type.Union(oneOf(...TIERS).anyOf, { description: 'Of this tier of size, or nearest to it' }),
    ),
    prompt: Rate('Input'),
    completion: Rate('Output'),
    ...RATES,
    ...PER_UNIT,
  },
  closed,
)

/** Prices in the config file: USD per million tokens, and USD for one request or unit. */
export const UsdPerMillionTokens = Type.Object(
  {
    prompt: Type.Number({ ...Usd, description: 'Input that was not cached' }),
    completion: Type.Number({ ...Usd, description: 'Output' }),
    ...RATES,
    request: Each('request, whatever its size'),
    ...PER_UNIT,
    tiers: Type.Optional(
      Type.Array(PriceTier, {
        description: 'Other prices for long inputs; a tier keeps the prices that it leaves out',
      }),
    ),
    variants: Type.Optional(
      Type.Array(PriceVariant, {
        maxItems: 64,
        description: 'Other prices for pictures; the last variant counts that is like the picture',
      }),
    ),
  },
  closed,
)
export type UsdPerMillionTokens = Static<typeof UsdPerMillionTokens>
