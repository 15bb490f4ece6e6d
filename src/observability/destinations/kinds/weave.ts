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
import type { Attributes } from '../otlp/attributes.ts'
import { createOtlpKind } from '../otlp/kind.ts'
import type { Trace, TraceSpan } from '../trace.ts'

const BASE_URL = 'https://trace.wandb.ai'

const CONFIG = Type.Object(
  {
    apiKey: Credential,
    baseUrl: Type.Optional(buildBaseUrl(BASE_URL)),
    entity: HeaderName,
    headers: buildHeadersSchema('authorization', 'project_id'),
    project: HeaderName,
  },
  closed,
)

/**
 * W&B Weave: its OTLP endpoint, Basic authentication of `api` and the key. The project stands in a
 * header, as older servers want it, and in the resource, as newer ones do. It documents Protocol
 * Buffers only (Weave, "Send OpenTelemetry traces"). Sessions become its threads.
 */
export const weave = createOtlpKind({
  type: 'weave',
  config: CONFIG,
  secrets: ['apiKey'],
  address: ['baseUrl'],
  encoding: 'protobuf',
  findUrl: ({ baseUrl = BASE_URL }) => joinUrl(baseUrl, '/otel/v1/traces'),
  buildHeaders: ({ apiKey, entity, project }) => ({
    authorization: buildBasic('api', apiKey),
    project_id: `${entity}/${project}`,
  }),
  buildOptions: ({ entity, project }) => ({
    resource: { 'wandb.entity': entity, 'wandb.project': project },
    buildAttributes,
  }),
})

const buildAttributes = ({ name, facts }: Trace, { role }: TraceSpan): Attributes =>
  role === 'root'
    ? {
        'wandb.display_name': name,
        ...(facts.sessionId === null
          ? {}
          : { 'wandb.thread_id': facts.sessionId, 'wandb.is_turn': true }),
      }
    : {}
