import { type Static, Type } from '@sinclair/typebox'
import { PageQuery } from '../../base/pages.ts'
import { closed, oneOf, optional, SomeName, Uuid } from '../../base/schema-builders.ts'
import { EndpointUrl } from '../destinations/config.ts'
import { ALERT_CAUSES } from './causes.data.ts'

const AlertName = Type.String({
  pattern: '^[^\\u0000-\\u001f\\u007f\\u2028\\u2029]+$',
  title: 'a name in one line',
  minLength: 1,
  maxLength: 255,
})

const WINDOWS = ['hourly', 'daily'] as const
export type AlertWindow = (typeof WINDOWS)[number]

/** Who is told. */
export const AlertReceiver = Type.Union([
  Type.Object(
    {
      type: Type.Literal('webhook'),
      url: EndpointUrl,
      /** Signs what is sent, as Standard Webhooks say. Its mask is shorter than any. */
      secret: Type.String({
        pattern: '^[!-~]+$',
        title: 'visible ASCII characters',
        minLength: 1,
        maxLength: 512,
      }),
    },
    closed,
  ),
  Type.Object({ type: Type.Literal('slack'), url: EndpointUrl }, closed),
])
export type AlertReceiver = Static<typeof AlertReceiver>

/** The fields that both creation and change accept. */
export const CHANGEABLE = {
  thresholds: Type.Optional(
    Type.Array(Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000_000 }), {
      minItems: 1,
      maxItems: 5,
      uniqueItems: true,
    }),
  ),
  window: Type.Optional(oneOf(...WINDOWS)),
  key_hash: optional(Type.String({ pattern: '^[a-f0-9]{64}$', maxLength: 64 })),
  provider: optional(SomeName),
  destination_id: optional(Uuid),
  disabled: Type.Optional(Type.Boolean()),
}

/** The body of `POST /alerts`. */
export const NewAlert = Type.Object(
  {
    ...CHANGEABLE,
    name: AlertName,
    cause: oneOf(...ALERT_CAUSES),
    to: AlertReceiver,
    workspace_id: Type.Optional(Uuid),
  },
  closed,
)
export type NewAlert = Static<typeof NewAlert>

/** The body of `PATCH /alerts/{id}`. Its cause and its workspace cannot change. */
export const AlertChange = Type.Object(
  { ...CHANGEABLE, name: Type.Optional(AlertName), to: Type.Optional(AlertReceiver) },
  closed,
)
export type AlertChange = Static<typeof AlertChange>

/** The query of `GET /alerts`. */
export const AlertQuery = Type.Object({
  ...PageQuery.properties,
  workspace_id: Type.Optional(Uuid),
})
export type AlertQuery = Static<typeof AlertQuery>
