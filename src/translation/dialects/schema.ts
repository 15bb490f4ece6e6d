import { Type } from '@sinclair/typebox'
import type { Json } from '../../base/json.ts'
import { oneOf, open, optional } from '../../base/schema-builders.ts'
import type { CacheControl as Marker } from '../../language/message.ts'

/**
 * Schema pieces that the dialects share. Objects are open: unknown fields are forwarded or ignored,
 * never refused.
 */

/** The fields of `debug` that request a dry run. */
export const dryRunFields = {
  dry_run: optional(
    Type.Boolean({
      description: 'Report how the call would be handled instead of making it; for management keys',
    }),
  ),
  key: optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'With dry_run: handle the call as if it were made with the key of this hash',
    }),
  ),
}

/** The most members of an object whose content the gateway does not read. */
const MAX_MEMBERS = 10_000

/** An object whose content the gateway does not read. */
export const AnyObject = Type.Record(Type.String(), Type.Unknown(), { maxProperties: MAX_MEMBERS })

/** The most tools of a call. No provider accepts nearly as many. */
export const MAX_TOOLS = 2_048

/** The most texts of a call that stop an answer. Anthropic at Bedrock accepts as many. */
export const MAX_STOPS = 8_191

export const CacheControl = Type.Object(
  { type: Type.Literal('ephemeral'), ttl: Type.Optional(oneOf('5m', '1h')) },
  open,
)

/** The field of content that can mark the end of a cached prefix. */
export const cacheMarkerField = { cache_control: optional(CacheControl) }

/** The fields that only presets have: whether and how long answers are cached (reference I.6). */
export const presetCacheFields = {
  cache_enabled: optional(Type.Boolean()),
  cache_ttl_seconds: optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
}

/** Returns the marker of a cached prefix as a field to spread; empty if there is none. */
export function toCacheControlField(cache_control: Marker | null | undefined): {
  cache_control?: Marker
} {
  return cache_control ? { cache_control } : {}
}

/** Returns the unknown fields of an object; undefined if there are none, which is usual. */
export function readUnknownFields(fields: object, known: Set<string>): Json | undefined {
  let extra: Json | undefined
  for (const name in fields) {
    if (known.has(name)) continue
    extra ??= {}
    extra[name] = fields[name as keyof typeof fields]
  }
  return extra
}

/** Returns the unknown fields as a field to spread; empty if there are none. */
export function toExtraField(extra: Json): { extra?: Json } {
  for (const _ in extra) return { extra }
  return {}
}
