import { FormatRegistry, Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import { buildBaseUrl, buildHeadersSchema, joinUrl } from '../config.ts'
import { createOtlpKind } from '../otlp/kind.ts'

/** Key, optional secret of old projects, host, path, and the number of the project. */
const DSN = '^https:\\/\\/([^:@]+)(?::[^@]*)?@([^/]+)(?:\\/[^/]+)*\\/(\\d+)\\/?$'

// The contract's pattern also matches texts that are no URL.
FormatRegistry.Set('sentry-dsn', text => URL.canParse(text) && /^\S+$/.test(text))

const CONFIG = Type.Object(
  {
    dsn: Type.String({ minLength: 1, maxLength: 2_048, pattern: DSN, format: 'sentry-dsn' }),
    headers: buildHeadersSchema('x-sentry-auth'),
    otlpEndpoint: buildBaseUrl(),
  },
  closed,
)

const readKey = (dsn: string): string => new URL(dsn).username

/**
 * Sentry: its OTLP endpoint, with the DSN's public key in `x-sentry-auth` (Sentry, "Direct OTLP
 * Traces"). The endpoint may be given with or without the path of traces.
 */
export const sentry = createOtlpKind({
  type: 'sentry',
  config: CONFIG,
  secrets: ['dsn'],
  address: ['otlpEndpoint'],
  findUrl: ({ otlpEndpoint }) => joinUrl(otlpEndpoint, '/v1/traces'),
  buildHeaders: ({ dsn }) => ({
    'x-sentry-auth': `Sentry sentry_version=7, sentry_key=${readKey(dsn)}`,
  }),
})
