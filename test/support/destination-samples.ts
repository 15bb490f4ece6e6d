import type { DestinationType, RenderWorld } from '../../src/observability/destinations/kind.ts'
import { readProtobufTexts } from './protobuf.ts'

/** What a kind needs, what it may have, and where its requests go. */
export interface DestinationSample {
  /** The fields without a default. */
  least: Record<string, unknown>
  /** Every other field but `headers`. */
  others: Record<string, unknown>
  /** The URL of a delivery with the least config, and with every field, without its query. */
  urls: [least: string, full: string]
  /** The names of headers that no config may set. */
  ownHeaders: string[]
  /** The secrets that the vendor wants in the body. */
  secretsInBody?: string[]
  /** Whether secrets sign requests, and so stand nowhere in them. */
  secretsSign?: true
  /** Values that are refused, for each field. */
  refused?: Record<string, unknown[]>
  /** Values that pass, for each field. */
  accepted?: Record<string, unknown[]>
  /** Reads every text of a body. Throws if the body is not of the vendor's format. */
  readTexts?(body: string | Uint8Array): string[]
}

export const WORLD: RenderWorld = {
  now: Date.UTC(2026, 10, 22, 10, 1),
  serviceName: 'openrouter',
  version: '1.0.0',
  createId: () => '018f4d7a-1111-4222-8333-444455556666',
}

const readLines = (body: string | Uint8Array): string[] =>
  String(body)
    .split('\n')
    .filter(line => line !== '')
    .flatMap(line => listTexts(JSON.parse(line)))

/** Lists every text of a JSON value, names included. Texts that hold JSON are looked into. */
export function listTexts(value: unknown): string[] {
  if (typeof value === 'string') return [value, ...listInner(value)]
  if (Array.isArray(value)) return value.flatMap(listTexts)
  if (typeof value !== 'object' || value === null) return [String(value)]
  return Object.entries(value).flatMap(([name, member]) => [name, ...listTexts(member)])
}

function listInner(text: string): string[] {
  if (!/^[[{]/.test(text)) return []
  try {
    return listTexts(JSON.parse(text))
  } catch {
    return []
  }
}

const URLS = {
  accepted: ['https://eu.example.com', 'http://10.0.0.7:4318', 'https://example.com/base/'],
  refused: [
    ...['', 'example.com', 'ftp://example.com', 'https://user:pass@example.com'],
    ...['https://example.com/?q=1', 'https://example.com/#a', 'https://example.com/\r\nX: 1'],
  ],
}
const ENDPOINTS = {
  accepted: ['https://example.com/v1/traces?token=1', 'http://10.0.0.7:4318'],
  refused: URLS.refused.filter(url => !url.includes('?')),
}
const HEADER_TEXTS = ['', ' begins', 'ends\n', 'CR\r\nLF', 'ümlaut', '\u0000']

/** What every kind needs in a test, by its type. */
export const SAMPLES: Record<DestinationType, DestinationSample> = {
  arize: {
    least: { apiKey: 'SECRET-apiKey', modelId: 'my-project', spaceKey: 'SECRET-spaceKey' },
    others: { baseUrl: 'https://otlp.eu-west-1a.arize.com' },
    urls: ['https://otlp.arize.com/v1/traces', 'https://otlp.eu-west-1a.arize.com/v1/traces'],
    ownHeaders: ['api_key', 'Arize-Api-Key', 'ARIZE-SPACE-ID', 'space_id'],
    refused: {
      baseUrl: URLS.refused,
      apiKey: HEADER_TEXTS,
      spaceKey: HEADER_TEXTS,
      modelId: ['', 'a\nb'],
    },
    accepted: { baseUrl: URLS.accepted, modelId: ['Prüfung 1'] },
    readTexts: body => readProtobufTexts(body as Uint8Array).flatMap(listTexts),
  },
  braintrust: {
    least: { apiKey: 'SECRET-apiKey', projectId: 'b1f0-project' },
    others: { baseUrl: 'https://braintrust.example.com/' },
    urls: [
      'https://api.braintrust.dev/otel/v1/traces',
      'https://braintrust.example.com/otel/v1/traces',
    ],
    ownHeaders: ['Authorization', 'x-bt-parent'],
    refused: { baseUrl: URLS.refused, apiKey: HEADER_TEXTS, projectId: HEADER_TEXTS },
    accepted: { baseUrl: URLS.accepted },
  },
  clickhouse: {
    least: {
      ...{ database: 'default', host: 'https://clickhouse.example.com:8123' },
      ...{ password: 'SECRET-password', username: 'writer' },
    },
    others: { table: 'traces' },
    urls: ['https://clickhouse.example.com:8123/', 'https://clickhouse.example.com:8123/'],
    ownHeaders: ['authorization', 'X-ClickHouse-Key', 'X-ClickHouse-User'],
    refused: {
      host: URLS.refused,
      database: ['', 'a\nb'],
      table: ['', 'a\u0000'],
      username: ['', 'a:b', 'a\nb'],
      password: [''],
    },
    accepted: { database: ['my`db\\'], table: ['Spuren täglich'], password: ['Paßwort: x'] },
    readTexts: readLines,
  },
  datadog: {
    least: { apiKey: 'SECRET-apiKey', mlApp: 'gateway-app' },
    others: { url: 'https://api.datadoghq.eu' },
    urls: [
      'https://api.us5.datadoghq.com/api/intake/llm-obs/v1/trace/spans',
      'https://api.datadoghq.eu/api/intake/llm-obs/v1/trace/spans',
    ],
    ownHeaders: ['DD-API-KEY'],
    refused: { url: URLS.refused, apiKey: HEADER_TEXTS, mlApp: ['', 'a\n', 'a'.repeat(194)] },
    accepted: { url: URLS.accepted, mlApp: ['a'.repeat(193)] },
  },
  grafana: {
    least: { apiKey: 'SECRET-apiKey', instanceId: '123456' },
    others: { baseUrl: 'https://otlp-gateway-prod-eu-west-2.grafana.net/otlp' },
    urls: [
      'https://otlp-gateway-prod-us-west-0.grafana.net/otlp/v1/traces',
      'https://otlp-gateway-prod-eu-west-2.grafana.net/otlp/v1/traces',
    ],
    ownHeaders: ['authorization'],
    refused: { baseUrl: URLS.refused, apiKey: HEADER_TEXTS, instanceId: HEADER_TEXTS },
    accepted: { baseUrl: URLS.accepted },
  },
  langfuse: {
    least: { publicKey: 'pk-SECRET-publicKey', secretKey: 'sk-SECRET-secretKey' },
    others: { baseUrl: 'https://cloud.langfuse.com' },
    urls: [
      'https://us.cloud.langfuse.com/api/public/otel/v1/traces',
      'https://cloud.langfuse.com/api/public/otel/v1/traces',
    ],
    ownHeaders: ['authorization', 'x-langfuse-ingestion-version'],
    refused: { baseUrl: URLS.refused, publicKey: HEADER_TEXTS, secretKey: HEADER_TEXTS },
    accepted: { baseUrl: URLS.accepted },
  },
  langsmith: {
    least: { apiKey: 'SECRET-apiKey' },
    others: {
      ...{ endpoint: 'https://eu.api.smith.langchain.com', project: 'production' },
      workspaceId: 'workspace-1',
    },
    urls: [
      'https://api.smith.langchain.com/otel/v1/traces',
      'https://eu.api.smith.langchain.com/otel/v1/traces',
    ],
    ownHeaders: ['X-API-Key', 'Langsmith-Project', 'X-Tenant-Id'],
    refused: {
      ...{ endpoint: URLS.refused, apiKey: HEADER_TEXTS, project: HEADER_TEXTS },
      workspaceId: HEADER_TEXTS,
    },
    accepted: { endpoint: URLS.accepted },
  },
  newrelic: {
    least: { licenseKey: 'SECRET-licenseKey' },
    others: { region: 'eu' },
    urls: ['https://otlp.nr-data.net/v1/traces', 'https://otlp.eu01.nr-data.net/v1/traces'],
    ownHeaders: ['api-key'],
    refused: { licenseKey: HEADER_TEXTS, region: ['', 'EU', 'ap'] },
    accepted: { region: ['us', 'eu'] },
  },
  opik: {
    least: { apiKey: 'SECRET-apiKey', projectName: 'my project', workspace: 'my-workspace' },
    others: {},
    urls: [
      'https://www.comet.com/opik/api/v1/private/otel/v1/traces',
      'https://www.comet.com/opik/api/v1/private/otel/v1/traces',
    ],
    ownHeaders: ['authorization', 'Comet-Workspace', 'projectName'],
    refused: { apiKey: HEADER_TEXTS, projectName: HEADER_TEXTS, workspace: HEADER_TEXTS },
  },
  'otel-collector': {
    least: { endpoint: 'https://collector.example.com:4318/v1/traces' },
    others: {},
    urls: [
      'https://collector.example.com:4318/v1/traces',
      'https://collector.example.com:4318/v1/traces',
    ],
    ownHeaders: [],
    refused: { endpoint: ENDPOINTS.refused },
    accepted: { endpoint: ENDPOINTS.accepted },
  },
  posthog: {
    least: { apiKey: 'phc_SECRET-apiKey' },
    others: { endpoint: 'https://eu.i.posthog.com' },
    urls: ['https://us.i.posthog.com/batch/', 'https://eu.i.posthog.com/batch/'],
    ownHeaders: [],
    secretsInBody: ['apiKey'],
    refused: { endpoint: URLS.refused, apiKey: ['', 'a\n'] },
    accepted: { endpoint: URLS.accepted },
  },
  ramp: {
    least: { apiKey: 'SECRET-apiKey' },
    others: { baseUrl: 'https://ramp.example.com/usage' },
    urls: [
      'https://api.ramp.com/developer/v1/ai-usage/openrouter',
      'https://ramp.example.com/usage',
    ],
    ownHeaders: ['authorization'],
    refused: { baseUrl: URLS.refused, apiKey: HEADER_TEXTS },
    accepted: { baseUrl: URLS.accepted },
  },
  s3: {
    least: {
      ...{ accessKeyId: 'SECRET-accessKeyId', bucketName: 'my-traces' },
      secretAccessKey: 'SECRET-secretAccessKey',
    },
    others: {
      ...{ endpoint: 'https://account.r2.cloudflarestorage.com', region: 'auto' },
      ...{ pathTemplate: '{year}/{month}/{day}/{apiKeyName}/{prefix}', prefix: 'llm/traces' },
      sessionToken: 'SECRET-sessionToken',
    },
    urls: [
      'https://my-traces.s3.us-east-1.amazonaws.com/openrouter-traces/2026-11-22/' +
        '5b8aa5a2d2c872e8321cf37308d69df2-1795341600250111878.json',
      'https://account.r2.cloudflarestorage.com/my-traces/2026/11/22/production/llm/traces/' +
        '5b8aa5a2d2c872e8321cf37308d69df2-1795341600250111878.json',
    ],
    ownHeaders: [
      ...['authorization', 'X-Amz-Content-Sha256', 'X-Amz-Date', 'X-Amz-Security-Token'],
    ],
    refused: {
      endpoint: URLS.refused,
      bucketName: ['', '../other', 'a/b', '.hidden', 'a b', 'a\n', 'ä'],
      region: ['', 'us.evil.example/', 'US', 'a b'],
      pathTemplate: [
        ...['..', '../x', 'a/../b', 'a/..', './a', '{secret}', '{}', '{', '}', '{prefix', 'a\nb'],
        ...['a\\b', '\u0000', '{prefix}/{traceId}'],
      ],
      prefix: ['..', 'a/../b', 'a/.', 'a\u0007', 'a\\b'],
      accessKeyId: HEADER_TEXTS,
      secretAccessKey: HEADER_TEXTS,
      sessionToken: HEADER_TEXTS,
    },
    accepted: {
      endpoint: URLS.accepted,
      pathTemplate: ['', 'a..b/..c/{date}', '{prefix}{year}', 'traces of {apiKeyName}'],
      prefix: ['', '/a/', 'a..b'],
      region: ['eu-central-1'],
    },
  },
  sentry: {
    least: {
      dsn: 'https://SECRETdsn0123456789@o1.ingest.us.sentry.io/42',
      otlpEndpoint: 'https://o1.ingest.us.sentry.io/api/42/integration/otlp',
    },
    others: {},
    urls: [
      'https://o1.ingest.us.sentry.io/api/42/integration/otlp/v1/traces',
      'https://o1.ingest.us.sentry.io/api/42/integration/otlp/v1/traces',
    ],
    ownHeaders: ['X-Sentry-Auth'],
    refused: {
      dsn: [
        ...['', 'https://o1.ingest.sentry.io/42', 'http://key@o1.ingest.sentry.io/42'],
        ...['https://key@o1.ingest.sentry.io/', 'https://key@a b/42', 'https://k\ney@host/42'],
      ],
      otlpEndpoint: URLS.refused,
    },
    accepted: {
      dsn: ['https://key:secret@sentry.example.com/path/7', 'https://key@host/7/'],
      otlpEndpoint: ['https://o1.ingest.us.sentry.io/api/42/integration/otlp/v1/traces/'],
    },
  },
  snowflake: {
    least: { account: 'my_org-account1', token: 'SECRET-token' },
    others: { database: 'OBS', schema: 'LLM', table: 'TRACES', warehouse: 'SMALL' },
    urls: [
      'https://my-org-account1.snowflakecomputing.com/api/v2/statements',
      'https://my-org-account1.snowflakecomputing.com/api/v2/statements',
    ],
    ownHeaders: ['accept', 'authorization'],
    refused: {
      account: ['', 'a/b', 'evil.example.com/', 'a..b', '-a', 'a b', 'a'.repeat(256), 'ä'],
      token: HEADER_TEXTS,
      database: ['', 'a\n'],
      schema: ['', 'a\n'],
      table: ['', 'a\n'],
      warehouse: ['', 'a\n'],
    },
    accepted: { account: ['eac52885.us-east-1', 'a'.repeat(255)], table: ['my "table"'] },
  },
  weave: {
    least: { apiKey: 'SECRET-apiKey', entity: 'team', project: 'my-project' },
    others: { baseUrl: 'https://acme.wandb.io/traces' },
    urls: ['https://trace.wandb.ai/otel/v1/traces', 'https://acme.wandb.io/traces/otel/v1/traces'],
    ownHeaders: ['authorization', 'project_id'],
    refused: {
      ...{ baseUrl: URLS.refused, apiKey: HEADER_TEXTS, entity: HEADER_TEXTS },
      project: HEADER_TEXTS,
    },
    accepted: { baseUrl: URLS.accepted },
    readTexts: body => readProtobufTexts(body as Uint8Array).flatMap(listTexts),
  },
  webhook: {
    least: { url: 'https://hooks.example.com/traces' },
    others: { method: 'PUT', signingSecret: 'SECRET-signing-0123456789' },
    urls: ['https://hooks.example.com/traces', 'https://hooks.example.com/traces'],
    ownHeaders: ['X-Test-Connection', 'X-Gateway-Signature'],
    secretsSign: true,
    refused: {
      url: ENDPOINTS.refused,
      method: ['', 'GET', 'post'],
      signingSecret: [
        '',
        ' '.repeat(16),
        'fifteen-letters',
        'a'.repeat(513),
        `${'a'.repeat(16)}\n`,
      ],
    },
    accepted: { url: ENDPOINTS.accepted, method: ['POST', 'PUT'] },
  },
}
