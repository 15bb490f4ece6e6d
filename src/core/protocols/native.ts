import type { Json } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'
import { TEXT_DIALECTS, type TextDialect } from '../language/dialect.ts'

/** A call, or what of it the gateway has no word for: both know the dialect of their client. */
interface InDialect {
  dialect: TextDialect
}

/** Tells whether a provider that speaks `native` understands the client's own words as they are. */
export const isNative = ({ dialect }: InDialect, native: TextDialect | null): boolean => dialect === native

/** Tells whether the client's own words are meant for any provider. */
export const isForwarded = ({ dialect }: InDialect): boolean => TEXT_DIALECTS[dialect].forwardsUnknown

/**
 * Returns the parameters without a name here that go to a provider: those of a dialect that
 * forwards them to any, and those of the dialect that the provider speaks itself.
 */
export function readExtra(call: TextCall, native: TextDialect | null = null): Json {
  return isNative(call, native) || isForwarded(call) ? call.extra : {}
}
