import { Type } from '@sinclair/typebox'
import { optional } from '../../kernel/schema-builders.ts'

/** What only a preset says: whether its answers may be kept, and for how long (wire reference I.6). */
export const caching = {
  cache_enabled: optional(Type.Boolean()),
  cache_ttl_seconds: optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
}
