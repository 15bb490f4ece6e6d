import { type Static, Type } from '@sinclair/typebox'
import { closed } from '../kernel/schema-builders.ts'

// A model at ten thousand dollars a million tokens does not exist: such a price is one typed per token or in cents.
const Usd = { minimum: 0, maximum: 10_000 }
const Rate = (description: string) => Type.Optional(Type.Number({ ...Usd, description }))
// A search costs cents; ten dollars is the price of a thousand.
const Each = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 1, description }))

const RATES = {
  cache_read: Rate('Input read from the cache; like prompt when absent'),
  cache_write: Rate('Input written to the cache; like prompt when absent'),
  cache_write_1h: Rate('Input written to the cache for an hour; like cache_write when absent'),
  reasoning: Rate('Reasoning; like completion when absent'),
  audio: Rate('Audio input; like prompt when absent'),
  audio_output: Rate('Audio output; like completion when absent'),
  image: Rate('Image input, where the provider counts it apart'),
  image_output: Rate('Image output; like completion when absent'),
}

const Tier = Type.Object(
  {
    above: Type.Integer({ minimum: 1, description: 'Holds when the whole input is of more tokens than this' }),
    prompt: Rate('Input'),
    completion: Rate('Output'),
    ...RATES,
  },
  closed,
)

/** Prices as the config file has them: USD per million tokens; `request` and `web_search` in USD for one. */
export const UsdPerMillionTokens = Type.Object(
  {
    prompt: Type.Number({ ...Usd, description: 'Input that was not cached' }),
    completion: Type.Number({ ...Usd, description: 'Output' }),
    ...RATES,
    request: Each('USD for one request, whatever its size'),
    web_search: Each('USD for one search of the web'),
    tiers: Type.Optional(Type.Array(Tier, { description: 'Other prices for long inputs; what a tier leaves out stays as it is' })),
  },
  closed,
)
export type UsdPerMillionTokens = Static<typeof UsdPerMillionTokens>
