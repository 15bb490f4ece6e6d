import { Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import {
  buildBaseUrl,
  buildBasic,
  buildHeadersSchema,
  Credential,
  HeaderName,
  joinUrl,
} from '../config.ts'
import { createOtlpKind } from '../otlp/kind.ts'

const BASE_URL = 'https://otlp-gateway-prod-us-west-0.grafana.net'

const CONFIG = Type.Object(
  {
    apiKey: Credential,
    baseUrl: Type.Optional(buildBaseUrl(BASE_URL)),
    headers: buildHeadersSchema('authorization'),
    instanceId: HeaderName,
  },
  closed,
)

/** Grafana Cloud: its OTLP gateway, Basic authentication of instance and token. */
export const grafana = createOtlpKind({
  type: 'grafana',
  config: CONFIG,
  secrets: ['apiKey'],
  address: ['baseUrl'],
  findUrl: ({ baseUrl = BASE_URL }) => `${joinUrl(baseUrl, '/otlp')}/v1/traces`,
  buildHeaders: ({ instanceId, apiKey }) => ({ authorization: buildBasic(instanceId, apiKey) }),
})
