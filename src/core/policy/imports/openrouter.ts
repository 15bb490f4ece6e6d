import { type Static, Type } from '@sinclair/typebox'
import { PERIODS } from '../../kernel/clock.ts'
import { MAX_USD } from '../../kernel/money.ts'
import { oneOf, open, optional } from '../../kernel/schema-builders.ts'
import type { KeyRow } from './rows.ts'

/** A key of `GET /keys`. */
export const OpenRouterKey = Type.Object(
  {
    hash: Type.String({ minLength: 32, maxLength: 200 }),
    name: Type.String({ minLength: 1, maxLength: 1_000 }),
    label: optional(Type.String({ maxLength: 1_000 })),
    disabled: optional(Type.Boolean()),
    limit: optional(Type.Number({ minimum: 0, maximum: MAX_USD })),
    limit_reset: optional(oneOf(...PERIODS)),
    include_byok_in_limit: optional(Type.Boolean()),
    expires_at: optional(Type.String({ maxLength: 40 })),
    usage: optional(Type.Number()),
  },
  open,
)
type OpenRouterKey = Static<typeof OpenRouterKey> & Record<string, unknown>

/** Reads a key. Its secret is not known from its hash, so that it gets a new one. */
export const readOpenRouterKey = (row: string, key: OpenRouterKey): KeyRow => ({
  ...{ kind: 'key', row, hash: null, external: key.hash, team: null },
  label: key.label ?? '',
  disabled: key.disabled === true,
  lost: [
    'secret: only its service knows it, so that a new one is made',
    ...(key.usage ? ['usage: spending begins at 0'] : []),
    ...(key.workspace_id ? ['workspace_id: --workspace names one here'] : []),
  ],
  input: {
    name: key.name,
    limit: key.limit ?? null,
    limit_reset: key.limit_reset ?? null,
    include_byok_in_limit: key.include_byok_in_limit ?? false,
    expires_at: key.expires_at == null ? null : new Date(key.expires_at).toISOString(),
  },
})
