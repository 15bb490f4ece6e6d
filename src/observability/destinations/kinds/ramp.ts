import { Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import { buildBaseUrl, buildHeadersSchema, Credential } from '../config.ts'
import { createOtlpKind } from '../otlp/kind.ts'

const BASE_URL = 'https://api.ramp.com/developer/v1/ai-usage/openrouter'

const CONFIG = Type.Object(
  {
    apiKey: Credential,
    baseUrl: Type.Optional(buildBaseUrl(BASE_URL)),
    headers: buildHeadersSchema('authorization'),
  },
  closed,
)

/** Ramp: OTLP to the URL of its integration itself (wire reference G.7), with a bearer token. */
export const ramp = createOtlpKind({
  type: 'ramp',
  config: CONFIG,
  secrets: ['apiKey'],
  address: ['baseUrl'],
  findUrl: ({ baseUrl = BASE_URL }) => baseUrl,
  buildHeaders: ({ apiKey }) => ({ authorization: `Bearer ${apiKey}` }),
})
