import { type Static, Type } from '@sinclair/typebox'
import { PageQuery } from '../../base/pages.ts'
import { optional, SomeName, Uuid } from '../../base/schema-builders.ts'

const Texts = optional(Type.Array(SomeName, { maxItems: 100 }))
const Hashes = optional(
  Type.Array(Type.String({ pattern: '^[a-f0-9]{64}$', maxLength: 64 }), {
    minItems: 1,
    maxItems: 100,
  }),
)
const Plaintext = Type.String({
  minLength: 1,
  maxLength: 16_384,
  description: 'A key, or the JSON of a service account or AWS credentials',
})

/**
 * The settings of a provider key that both creation and change accept. The key itself is not among
 * them.
 */
export const CHANGEABLE = {
  allowed_api_key_hashes: Hashes,
  allowed_models: Texts,
  allowed_user_ids: Texts,
  declared_zdr: optional(Type.Boolean()),
  disabled: Type.Optional(Type.Boolean()),
  is_byok_only: Type.Optional(Type.Boolean()),
  is_fallback: Type.Optional(Type.Boolean()),
  is_required: Type.Optional(Type.Boolean()),
  name: optional(Type.String({ maxLength: 255 })),
}

/** The body of `POST /byok`. */
export const NewByokKey = Type.Object({
  ...CHANGEABLE,
  key: Plaintext,
  provider: SomeName,
  workspace_id: Type.Optional(Uuid),
})
export type NewByokKey = Static<typeof NewByokKey>

/** The body of `PATCH /byok/{id}`. */
export const ByokChange = Type.Object({ ...CHANGEABLE, key: Type.Optional(Plaintext) })
export type ByokChange = Static<typeof ByokChange>

/** The query of `GET /byok`. */
export const ByokQuery = Type.Object({
  ...PageQuery.properties,
  workspace_id: Type.Optional(Uuid),
  provider: Type.Optional(SomeName),
})
export type ByokQuery = Static<typeof ByokQuery>
