import { type Static, Type } from '@sinclair/typebox'
import { attosPerToken } from '../ledger/money.ts'

// A model at ten thousand dollars a million tokens does not exist: such a price is one typed per token or in cents.
const Usd = Type.Number({ minimum: 0, maximum: 10_000 })
const Rate = (description: string) => Type.Optional(Type.Number({ ...Usd, description }))

/** Prices as the config file has them: USD per million tokens. */
export const UsdPerMillionTokens = Type.Object(
  {
    prompt: Type.Number({ ...Usd, description: 'Input that was not cached' }),
    completion: Type.Number({ ...Usd, description: 'Output' }),
    cache_read: Rate('Input read from the cache; like prompt when absent'),
    cache_write: Rate('Input written to the cache; like prompt when absent'),
    reasoning: Rate('Reasoning; like completion when absent'),
    audio: Rate('Audio input; like prompt when absent'),
    audio_output: Rate('Audio output; like completion when absent'),
    image_output: Rate('Image output; like completion when absent'),
  },
  { additionalProperties: false },
)
export type UsdPerMillionTokens = Static<typeof UsdPerMillionTokens>

type Rated = keyof UsdPerMillionTokens

/** Prices as the ledger has them: atto-dollars per token; `request` per call. */
export type Prices = { prompt: bigint; completion: bigint; request?: bigint } & Partial<Record<Rated, bigint>>

/** The exact prices of a price list in USD per million tokens. */
export function pricesOf(usd: UsdPerMillionTokens): Prices {
  const rates = Object.entries(usd).map(([name, rate]) => [name, attosPerToken(rate)])
  return Object.fromEntries(rates) as Prices
}

/** The prices of an endpoint that costs nothing. */
export const FREE: Prices = { prompt: 0n, completion: 0n }
