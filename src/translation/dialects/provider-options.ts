import { Type } from '@sinclair/typebox'
import { requireValid } from '../../base/body.ts'
import { optional } from '../../base/schema-builders.ts'
import { AnyObject } from './schema.ts'

/** The preferences of `provider` that pictures, sound and film have beside those of all calls. */
const ProviderOptions = Type.Object({
  options: optional(Type.Record(Type.String(), AnyObject)),
})

/**
 * Reads the parameters that a call names for single providers, by their slugs. Throws 400 for
 * options that are no object of objects.
 */
export function readProviderOptions(
  provider: object | null | undefined,
): Record<string, Record<string, unknown>> {
  if (!provider || !('options' in provider)) return {}
  return requireValid(ProviderOptions, { options: provider.options }).options ?? {}
}
