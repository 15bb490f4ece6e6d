import { type Static, Type } from '@sinclair/typebox'
import { PageQuery } from '../../base/pages.ts'
import { closed, oneOf, optional, SomeName, Uuid } from '../../base/schema-builders.ts'
import { MailAddress } from '../../config/mail.ts'
import { EndpointUrl } from '../destinations/config.ts'

/** What an alert may be about, and which of its fields have a meaning then. */
interface CauseFacts {
  /** The thresholds of an alert that names none, from the least severe to the most. */
  thresholds: number[]
  /** The lowest and the highest threshold; null for a cause that either is or is not. */
  range: { above: number; most: number; unit: string } | null
  /** Whether less is worse, as of what is left. */
  isFalling?: boolean
  /** Whether it is told once in a window that the alert names. */
  hasWindow: boolean
  /** The field that narrows it. */
  scope: 'key_hash' | 'provider' | 'destination_id' | null
  /** Whether it is about the installation: only the default workspace has such alerts. */
  isInstallations?: boolean
  /** Whether its end is told too. That of others is known: a window is over, or a key has ended. */
  tellsEnd?: boolean
}

/** The causes of alerts. */
export const CAUSES = {
  limit_near: {
    thresholds: [0.8, 1],
    range: { above: 0, most: 1, unit: 'shares of a limit' },
    hasWindow: false,
    scope: 'key_hash',
  },
  error_rate: {
    thresholds: [0.1],
    range: { above: 0, most: 1, unit: 'shares of calls' },
    hasWindow: true,
    scope: 'key_hash',
    tellsEnd: true,
  },
  provider_empty: {
    thresholds: [],
    range: null,
    hasWindow: true,
    scope: 'provider',
    isInstallations: true,
    tellsEnd: true,
  },
  destination_backlog: {
    thresholds: [10_000],
    range: { above: 0, most: 100_000_000, unit: 'counts of calls' },
    hasWindow: true,
    scope: 'destination_id',
    tellsEnd: true,
  },
  credential_ending: {
    thresholds: [7, 1],
    range: { above: 0, most: 365, unit: 'days' },
    isFalling: true,
    hasWindow: false,
    scope: 'key_hash',
  },
  credits_low: {
    thresholds: [10],
    range: { above: 0, most: 1_000_000, unit: 'amounts in USD' },
    isFalling: true,
    hasWindow: true,
    scope: null,
    isInstallations: true,
    tellsEnd: true,
  },
} as const satisfies Record<string, CauseFacts>

export type AlertCause = keyof typeof CAUSES

export const ALERT_CAUSES = Object.keys(CAUSES) as AlertCause[]

/** Returns what is known of a cause. */
export const describeCause = (cause: AlertCause): CauseFacts => CAUSES[cause]

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
  Type.Object(
    {
      type: Type.Literal('mail'),
      addresses: Type.Array(MailAddress, { minItems: 1, maxItems: 10, uniqueItems: true }),
    },
    closed,
  ),
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
