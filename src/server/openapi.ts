import type { TSchema } from '@sinclair/typebox'
import type { AnyElysia } from 'elysia'
import { omitExactness } from '../base/schema.ts'
import { findRequiredCredential, type RequiredCredential } from './access.ts'
import type { Answers } from './openapi/answers.ts'
import type { OperationNote } from './openapi/notes.data.ts'
import type { KeyHeader, Operation, OtherAnswer } from './operation.ts'

/** One route of the app with its description. */
export interface DescribedRoute {
  method: string
  path: string
  operation: Operation
  /** The credential that its guard requires; undefined if it needs none. */
  credential: RequiredCredential | undefined
}

/** Lists the routes that have a description. */
export function listDescribedRoutes(app: AnyElysia): DescribedRoute[] {
  return app.routes.flatMap(({ method, path, hooks }) => {
    const described = (hooks as { detail?: { 'x-operation'?: Operation } } | undefined)?.detail?.[
      'x-operation'
    ]
    if (!described || described.isPage) return []
    return [
      {
        method: method.toLowerCase(),
        path: path.replace(/(?<=.)\/$/, ''),
        operation: described,
        credential: findRequiredCredential(hooks),
      },
    ]
  })
}

const MEANINGS: Record<number, string> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted',
  204: 'Done, without a body',
  304: 'Not modified',
  400: 'Invalid request parameters',
  401: 'Authentication missing or invalid',
  402: 'Insufficient credits',
  403: 'Not allowed for this key',
  404: 'Resource not found',
  408: 'The request took too long to arrive',
  409: 'Changed by another request at the same moment',
  410: 'Gone',
  412: 'Modified since',
  413: 'Request payload too large',
  415: 'Unsupported coding of the body',
  422: 'Unprocessable request',
  429: 'Rate limit exceeded',
  500: 'Internal server error',
  502: 'Provider returned error',
  503: 'Service temporarily unavailable',
  524: 'Request timed out',
  529: 'Provider overloaded',
}

/** What the description says beside what the routes declare. */
export interface DescriptionContent {
  /** The version of this program; `info.version` is that of the API. */
  version: string
  answers: Answers
  notes: Record<string, OperationNote>
  tags: { name: string; description: string }[]
}

/** Builds the OpenAPI 3.1 description from the routes themselves (specification, Versioning 2). */
export function buildOpenApi(
  app: AnyElysia,
  { title, url }: { title: string; url: string },
  content: DescriptionContent,
) {
  const paths: Record<string, Record<string, unknown>> = {}
  const routes = listDescribedRoutes(app)
  for (const route of routes) {
    const template = route.path.replace(/:(\w+)/g, '{$1}')
    paths[template] = { ...paths[template], [route.method]: toOperationObject(route, content) }
  }
  const used = new Set(routes.map(({ operation }) => operation.tag))
  return {
    openapi: '3.1.0',
    info: {
      title,
      version: '1.0.0',
      'x-gateway-version': content.version,
      description: DESCRIPTION,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url }],
    security: [{ apiKey: [] }],
    tags: content.tags.filter(({ name }) => used.has(name)),
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key' },
        apiKeyHeader: {
          type: 'apiKey',
          in: 'header',
          name: 'x-api-key',
          description: 'An API key, as Anthropic’s clients send it',
        },
        ...Object.fromEntries(
          Object.entries(KEY_HEADERS).map(([name, [scheme, clients]]) => [
            scheme,
            {
              type: 'apiKey',
              in: 'header',
              name,
              description: `An API key, as ${clients} send it`,
            },
          ]),
        ),
      },
      schemas: {
        ...content.answers.schemas,
        Error: ERROR,
        ...collectRefusalSchemas(app),
        ...collectOtherSchemas(app),
      },
    },
  }
}

const DESCRIPTION =
  'One API in front of every model provider. Calls need an API key; those that administer the ' +
  'gateway need a management key. `gateway keys create --name me` makes a key, with ' +
  '`--management` a management key.'

const ERROR = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: {
        code: { type: 'integer' },
        message: { type: 'string' },
        metadata: { type: ['object', 'null'] },
      },
    },
    user_id: { type: ['string', 'null'] },
  },
}

const collectRefusalSchemas = (app: AnyElysia) =>
  Object.fromEntries(
    listDescribedRoutes(app).flatMap(({ operation: { refusal } }) =>
      refusal ? [[refusal.name, refusal.schema]] : [],
    ),
  )

const collectOtherSchemas = (app: AnyElysia) =>
  Object.fromEntries(
    listDescribedRoutes(app).flatMap(({ operation: { other } }) =>
      other ? [[other.name, toPlainSchema(other.schema)]] : [],
    ),
  )

function toOperationObject(
  { operation, credential }: DescribedRoute,
  { notes, answers }: DescriptionContent,
) {
  const {
    id,
    tag,
    summary,
    body,
    accepts,
    query,
    params,
    headers,
    statuses,
    open,
    eitherHeader,
    keyHeader,
  } = operation
  const note = notes[id]
  const toExample = <Parameter extends { name: string }>(parameter: Parameter) =>
    addExample(parameter, note)
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: `${note?.description ?? summary}${explainCredential(credential)}`,
    ...(open ? { security: [] } : {}),
    ...(keyHeader ? { security: [{ apiKey: [] }, { [KEY_HEADERS[keyHeader][0]]: [] }] } : {}),
    ...(eitherHeader ? { security: [{ apiKey: [] }, { apiKeyHeader: [] }] } : {}),
    parameters: [
      ...Object.entries(params ?? {})
        .map(toPathParameter)
        .map(toExample),
      ...listQueryParameters(query).map(toExample),
      ...Object.entries(headers ?? {}).map(toHeaderParameter),
    ],
    ...(body ? { requestBody: toRequestBody(body, accepts, note) } : {}),
    responses: Object.fromEntries(
      statuses.map(status => [status, toResponseObject(status, operation, answers)]),
    ),
  }
}

/** The scheme of each header of a door, and whose it is. */
const KEY_HEADERS: Record<KeyHeader, [scheme: string, clients: string]> = {
  'api-key': ['azureKeyHeader', 'Azure’s clients'],
  'x-goog-api-key': ['googleKeyHeader', 'Google’s clients'],
}

const explainCredential = (credential: RequiredCredential | undefined): string =>
  credential === 'management'
    ? ' Needs a management key.'
    : credential === 'scim'
      ? ' Needs the token of an identity provider.'
      : ''

const toRequestBody = (
  body: TSchema,
  accepts = 'application/json',
  note: OperationNote | undefined,
) => ({
  required: true,
  content: {
    [accepts]: {
      schema: toPlainSchema(body),
      ...(note?.body ? { example: note.body } : {}),
    },
  },
})

function addExample<Parameter extends { name: string }>(
  parameter: Parameter,
  note: OperationNote | undefined,
) {
  const example = note?.examples?.[parameter.name]
  return example === undefined ? parameter : { ...parameter, example }
}

const toPathParameter = ([name, description]: [string, string]) => ({
  name,
  in: 'path',
  required: true,
  description,
  schema: { type: 'string' },
})

const listQueryParameters = (query: TSchema | undefined) =>
  Object.entries((query?.properties ?? {}) as Record<string, TSchema>).map(([name, schema]) => ({
    name,
    in: 'query',
    required: (query?.required as string[] | undefined)?.includes(name) ?? false,
    schema: toPlainSchema(schema),
  }))

const toHeaderParameter = ([name, values]: [string, string[]]) => ({
  name,
  in: 'header',
  required: false,
  ...(name === 'If-Match' ? { description: IF_MATCH } : {}),
  schema: { type: 'string', ...(values.length > 0 ? { enum: values } : {}) },
})

const IF_MATCH =
  'Changes or deletes it only if it still has this tag (`ETag` of the answer that it was read ' +
  'with): where it was changed since, nothing is, and the answer is 412'

const TAG_HEADER = {
  ETag: { description: 'For `If-Match` of a change', schema: { type: 'string' } },
}

function toResponseObject(
  status: number,
  { id, produces = [], refusal, other, hasTag }: Operation,
  answers: Answers,
) {
  const description = MEANINGS[status] ?? 'Answer'
  const error = { $ref: `#/components/schemas/${refusal?.name ?? 'Error'}` }
  if (status === 204 || status === 304) return { description }
  if (status >= 400)
    return {
      description,
      content: { [refusal?.contentType ?? 'application/json']: { schema: error } },
    }
  const types = produces.some(type => EXCLUSIVE_TYPES.includes(type))
    ? produces
    : ['application/json', ...produces]
  const pickSchema = (type: string) => {
    const schema = answers.operations[id]?.[type] ?? {}
    return other && type === 'application/json' ? toEitherSchema(schema, other) : schema
  }
  return {
    description,
    ...(hasTag ? { headers: TAG_HEADER } : {}),
    content: Object.fromEntries(types.map(type => [type, { schema: pickSchema(type) }])),
  }
}

const toEitherSchema = (schema: object, { name, when }: OtherAnswer) => ({
  anyOf: [schema, { $ref: `#/components/schemas/${name}`, description: when }],
})

// A route that produces one of these never answers with plain JSON.
const EXCLUSIVE_TYPES = [
  'text/plain',
  'text/html',
  'text/javascript',
  'image/svg+xml',
  'application/octet-stream',
  'application/yaml',
  'application/scim+json',
]

// TypeBox marks its schemas with symbols, which JSON drops.
const toPlainSchema = (schema: TSchema): unknown =>
  JSON.parse(
    JSON.stringify(schema, (_, value) => (isInteger(value) ? omitExactness(value) : value)),
  )

const isInteger = (value: unknown): value is TSchema =>
  (value as TSchema | null)?.type === 'integer'
