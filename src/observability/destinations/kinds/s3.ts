import { type Static, Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import { Secret } from '../../../base/secret.ts'
import { signV4 } from '../../../network/authorize/sigv4.ts'
import {
  buildBaseUrl,
  buildHeaders,
  buildHeadersSchema,
  Credential,
  fillConfig,
} from '../config.ts'
import { judgePage } from '../judge.ts'
import type { DeliveryRequest, DestinationKind } from '../kind.ts'
import { buildOtlp } from '../otlp.ts'
import { writeJson } from '../text.ts'
import type { Trace } from '../trace.ts'

const PATH_TEMPLATE = '{prefix}/{date}'
const PREFIX = 'openrouter-traces'
const REGION = 'us-east-1'

/** No segment that leads upward, no empty name in braces, and no variable that there is not. */
const TEMPLATE =
  '^(?!(?:.*/)?\\.{1,2}(?:/|$))' +
  '(?:[^{}\\\\\\u0000-\\u001f\\u007f]|\\{(?:prefix|date|year|month|day|apiKeyName)\\})*$'

const CONFIG = Type.Object(
  {
    accessKeyId: Credential,
    // The letters of a bucket stand in a host name: S3 allows no others.
    bucketName: Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
      title: 'the name of a bucket: letters, digits and . _ -',
      minLength: 1,
      maxLength: 255,
    }),
    endpoint: Type.Optional(buildBaseUrl()),
    headers: buildHeadersSchema(
      ...['authorization', 'x-amz-content-sha256', 'x-amz-date', 'x-amz-security-token'],
    ),
    pathTemplate: Type.Optional(
      Type.String({
        pattern: TEMPLATE,
        title: 'a path of {prefix}, {date}, {year}, {month}, {day} and {apiKeyName} without ..',
        maxLength: 512,
        default: PATH_TEMPLATE,
      }),
    ),
    prefix: Type.Optional(
      Type.String({
        pattern: '^(?!(?:.*/)?\\.{1,2}(?:/|$))[^\\\\\\u0000-\\u001f\\u007f]*$',
        title: 'a path without ..',
        maxLength: 255,
        default: PREFIX,
      }),
    ),
    region: Type.Optional(
      Type.String({ pattern: '^[a-z0-9-]+$', minLength: 1, maxLength: 64, default: REGION }),
    ),
    secretAccessKey: Credential,
    sessionToken: Type.Optional(Credential),
  },
  closed,
)
type Config = Static<typeof CONFIG>

/** S3 and what speaks its protocol: one JSON object for each trace, signed by Signature V4. */
export const s3: DestinationKind<typeof CONFIG> = {
  type: 's3',
  config: CONFIG,
  secrets: ['accessKeyId', 'secretAccessKey', 'sessionToken'],
  address: ['endpoint', 'region', 'bucketName'],
  batchSize: 1,
  render(world, given, traces) {
    const config = fillConfig(CONFIG, given)
    const [trace] = traces
    if (!trace || traces.length > 1) throw new Error('An object of S3 holds one trace')
    const key = [...listFolders(config, trace), `${trace.traceId}-${buildTime(trace)}.json`]
    return renderPut(config, key, writeJson(buildObject(world, trace)), world.now)
  },
  renderTest({ now, serviceName }, given) {
    const config = fillConfig(CONFIG, given)
    const key = splitPath(config.prefix ?? PREFIX)
    const body = writeJson({ test: true, service: serviceName })
    return renderPut(config, [...key, 'openrouter-connection-test.json'], body, now)
  },
  judge: judgePage,
}

function renderPut(config: Config, key: string[], body: string, now: number): DeliveryRequest {
  const { accessKeyId, secretAccessKey, sessionToken, region = REGION } = config
  const url = `${findBucket(config, region)}/${key.map(encodeSegment).join('/')}`
  const headers = buildHeaders(config.headers, { 'content-type': 'application/json' })
  const signature = signV4(
    { method: 'PUT', url, headers, body },
    {
      access_key_id: accessKeyId,
      secret_access_key: new Secret(secretAccessKey),
      session_token: sessionToken === undefined ? null : new Secret(sessionToken),
    },
    ...([region, 's3', new Date(now)] as const),
  )
  return { method: 'PUT', url, headers: { ...headers, ...signature }, body }
}

// Amazon wants the bucket in the host name, where a dot does not fit its certificate.
function findBucket({ endpoint, bucketName }: Config, region: string): string {
  if (endpoint !== undefined) return `${endpoint.replace(/\/+$/, '')}/${bucketName}`
  return bucketName.includes('.')
    ? `https://s3.${region}.amazonaws.com/${bucketName}`
    : `https://${bucketName}.s3.${region}.amazonaws.com`
}

/** Lists the folders of a trace's key: the template with its variables of that time, in UTC. */
function listFolders({ pathTemplate = PATH_TEMPLATE, prefix = PREFIX }: Config, trace: Trace) {
  const date = new Date(trace.facts.startedAt).toISOString().slice(0, 10)
  const [year = '', month = '', day = ''] = date.split('-')
  const variables: Record<string, string> = {
    ...{ prefix, date, year, month, day },
    apiKeyName: toSegment(trace.facts.apiKeyName ?? 'none'),
  }
  return splitPath(pathTemplate.replace(/\{(\w+)\}/g, (_, name: string) => variables[name] ?? ''))
}

const splitPath = (path: string): string[] =>
  path.split('/').filter(segment => segment !== '' && !/^\.{1,2}$/.test(segment))

/** Makes one segment of a name that anyone may choose. */
const toSegment = (name: string): string =>
  name.replace(UNSAFE, '_').slice(0, LONGEST_SEGMENT).toWellFormed() || 'none'

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are the characters to replace.
const UNSAFE = /[\u0000-\u001f\u007f/\\{}]/g
const LONGEST_SEGMENT = 128

const encodeSegment = (segment: string): string =>
  encodeURIComponent(segment).replace(
    /[!'()*]/g,
    letter => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  )

/**
 * Returns the time of a trace's object: its start in milliseconds, and six digits of its
 * generation's id. Calls of one trace that start together have objects of their own, and a
 * delivery that comes again replaces its own.
 */
function buildTime({ id, facts }: Trace): string {
  const hash = new Bun.CryptoHasher('sha256').update(id).digest('hex').slice(0, 12)
  const digits = String(Number.parseInt(hash, 16) % 1_000_000).padStart(6, '0')
  return `${Math.floor(facts.startedAt)}${digits}`
}

const buildObject = (source: { serviceName: string; version: string }, trace: Trace) => ({
  id: trace.id,
  traceId: trace.traceId,
  name: trace.name,
  timestamp: new Date(trace.facts.startedAt).toISOString(),
  ...trace.facts,
  input: trace.input,
  output: trace.output,
  metadata: trace.metadata,
  ...(Object.keys(trace.extra).length === 0 ? {} : { openrouter_generation: trace.extra }),
  spans: buildOtlp(source, [{ ...trace, input: null, output: null }]).resourceSpans.flatMap(
    ({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans),
  ),
})
