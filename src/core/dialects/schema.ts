import { Type } from '@sinclair/typebox'
import type { Json } from '../kernel/json.ts'
import { oneOf, open, optional } from '../kernel/schema-builders.ts'
import type { CacheControl as Marker } from '../language/message.ts'

/** What the schemas of all dialects are made of. Objects are open: what is not named is forwarded or ignored, never refused. */

/** The members of `debug` that ask what would become of a call. */
export const dryRun = {
  dry_run: optional(
    Type.Boolean({
      description: 'Tell what would become of the call instead of making it; for management keys',
    }),
  ),
  key: optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'With dry_run: as if the key of this hash asked',
    }),
  ),
}

/** An object that nobody here looks into. */
export const Anything = Type.Record(Type.String(), Type.Unknown())

export const CacheControl = Type.Object(
  { type: Type.Literal('ephemeral'), ttl: Type.Optional(oneOf('5m', '1h')) },
  open,
)

/** The members of what can mark the end of a cached prefix. */
export const marked = { cache_control: optional(CacheControl) }

/** What only a preset says: whether answers may be kept, and how long (wire reference I.6). */
export const caching = {
  cache_enabled: optional(Type.Boolean()),
  cache_ttl_seconds: optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
}

/** Returns the marker of a cached prefix as a member, where there is one. */
export function keepMarker(cache_control: Marker | null | undefined): { cache_control?: Marker } {
  return cache_control ? { cache_control } : {}
}

/** Returns what a thing holds besides its known fields; undefined for nothing, the usual case. */
export function readUnknown(thing: object, known: Set<string>): Json | undefined {
  let extra: Json | undefined
  for (const name in thing) {
    if (known.has(name)) continue
    extra ??= {}
    extra[name] = thing[name as keyof typeof thing]
  }
  return extra
}

/** Returns the unknown fields as a member, where there are some. */
export function keepExtra(extra: Json): { extra?: Json } {
  for (const _ in extra) return { extra }
  return {}
}
