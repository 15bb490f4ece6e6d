import { Type } from '@sinclair/typebox'
import { oneOf, open, optional } from '../kernel/schema-builders.ts'

/** What the schemas of all dialects are made of. Objects are open: what is not named is forwarded or ignored, never refused. */

/** The members of `debug` that ask what would become of a call. */
export const dryRun = {
  dry_run: optional(Type.Boolean({ description: 'Tell what would become of the call instead of making it; for management keys' })),
  key: optional(Type.String({ minLength: 1, maxLength: 200, description: 'With dry_run: as if the key of this hash asked' })),
}

/** An object that nobody here looks into. */
export const Anything = Type.Record(Type.String(), Type.Unknown())

export const CacheControl = Type.Object({ type: Type.Literal('ephemeral'), ttl: Type.Optional(oneOf('5m', '1h')) }, open)

/** The members of what can mark the end of a cached prefix. */
export const marked = { cache_control: optional(CacheControl) }
