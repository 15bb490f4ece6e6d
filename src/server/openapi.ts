import type { TSchema } from '@sinclair/typebox'
import type { AnyElysia } from 'elysia'
import { findRequiredCredential, type RequiredCredential } from './access.ts'
import type { Operation, OtherAnswer } from './operation.ts'

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
    if (!described) return []
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
  422: 'Unprocessable request',
  429: 'Rate limit exceeded',
  500: 'Internal server error',
  502: 'Provider returned error',
  503: 'Service temporarily unavailable',
  524: 'Request timed out',
  529: 'Provider overloaded',
}

/** Builds the OpenAPI 3.1 description from the routes themselves (specification, Versioning 2). */
export function buildOpenApi(app: AnyElysia, { title, url }: { title: string; url: string }) {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const { method, path, operation } of listDescribedRoutes(app)) {
    const template = path.replace(/:(\w+)/g, '{$1}')
    paths[template] = { ...paths[template], [method]: toOperationObject(operation) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title,
      version: '1.0.0',
      description: 'One API in front of every model provider.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url }],
    security: [{ apiKey: [] }],
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
      },
      schemas: { Error: ERROR, ...collectRefusalSchemas(app), ...collectOtherSchemas(app) },
    },
  }
}

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

function toOperationObject(operation: Operation) {
  const { id, tag, summary, body, query, params, headers, statuses, open, eitherHeader } = operation
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(open ? { security: [] } : {}),
    ...(eitherHeader ? { security: [{ apiKey: [] }, { apiKeyHeader: [] }] } : {}),
    parameters: [
      ...Object.entries(params ?? {}).map(toPathParameter),
      ...listQueryParameters(query),
      ...Object.entries(headers ?? {}).map(toHeaderParameter),
    ],
    ...(body
      ? {
          requestBody: {
            required: true,
            content: { 'application/json': { schema: toPlainSchema(body) } },
          },
        }
      : {}),
    responses: Object.fromEntries(
      statuses.map(status => [status, toResponseObject(status, operation)]),
    ),
  }
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
  schema: { type: 'string', enum: values },
})

function toResponseObject(status: number, { produces = [], refusal, other }: Operation) {
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
  const pickSchema = (type: string) =>
    other && type === 'application/json' ? toEitherSchema(other) : {}
  return {
    description,
    content: Object.fromEntries(types.map(type => [type, { schema: pickSchema(type) }])),
  }
}

const toEitherSchema = ({ name, when }: OtherAnswer) => ({
  anyOf: [{}, { $ref: `#/components/schemas/${name}`, description: when }],
})

// A route that produces one of these never answers with plain JSON.
const EXCLUSIVE_TYPES = ['text/plain', 'application/scim+json']

// TypeBox marks its schemas with symbols, which JSON drops.
const toPlainSchema = (schema: TSchema): unknown => JSON.parse(JSON.stringify(schema))
