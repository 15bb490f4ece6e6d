import { Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import { invalid } from '../../base/errors.ts'
import { oneOf, open } from '../../base/schema-builders.ts'
import { countTokens } from '../../extensions/count-tokens.ts'
import { getPolicy } from '../../limits/effective.ts'
import { toPublicModel } from '../../resources/models/view.ts'
import { getModel, listCallableModels } from '../../resources/models.ts'
import type { Dialect } from '../../translation/dialects/dialect.ts'
import { GEMINI_ERROR_FORMAT } from '../../translation/dialects/gemini/error.ts'
import { GeminiCountRequest } from '../../translation/dialects/gemini/schema.ts'
import {
  gemini,
  geminiEmbedding,
  geminiEmbeddings,
  geminiStreams,
} from '../../translation/dialects/gemini.ts'
import { requireKey } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { type FindRequestPeer, readContext } from '../calls.ts'
import { readRequestId } from '../headers.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { Routes } from '../routes.ts'
import { createDoorRoute, type DoorRoute } from './inference.ts'

/** What Google’s clients may say beside the body: `alt` is the form of the answer. */
const Query = Type.Object({ alt: Type.Optional(oneOf('sse', 'json')) }, open)

const ListQuery = Type.Object(
  {
    pageSize: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
    pageToken: Type.Optional(Type.String({ pattern: '^\\d{1,9}$', maxLength: 9 })),
  },
  open,
)

const SHARED = {
  params: { model: 'The model; in a path as clients write it, its slash may be plain' },
  query: Query,
  keyHeader: 'x-goog-api-key',
} as const

/**
 * Creates the routes of the Gemini API’s clients, below `/v1beta`. Clients write the action behind a
 * colon, `/v1beta/models/acme/small:generateContent`: `doors.ts` makes a segment of it.
 */
export function createGeminiRoutes(gateway: Gateway, findPeer: FindRequestPeer): Routes[] {
  const create = (dialect: Dialect, more: object = {}, choose?: DoorRoute['choose']) =>
    createDoorRoute(gateway, findPeer, {
      ...SHARED,
      dialect,
      path: dialect.path,
      read: ({ model }) => ({ model, ...more }),
      ...(choose ? { choose } : {}),
    })
  const streamed = geminiStreams as unknown as Record<'sse' | 'json', Dialect>
  return [
    create(gemini as Dialect, { stream: false }),
    create(
      streamed.sse,
      { stream: true },
      query => streamed[(query as { alt?: 'sse' | 'json' }).alt ?? 'json'],
    ),
    create(geminiEmbedding as unknown as Dialect),
    create(geminiEmbeddings as unknown as Dialect),
    createReadingRoutes(gateway, findPeer),
  ]
}

const createReadingRoutes = (gateway: Gateway, findPeer: FindRequestPeer) =>
  new Routes(requireKey(gateway))
    .post(
      '/v1beta/models/:model/countTokens',
      async ({ actor, request, params: { model } }) => {
        const requestId = readRequestId(request, gateway.ids.uuid())
        const { contents, generateContentRequest: whole } = await readBody(
          request,
          GeminiCountRequest,
        )
        const asked = whole ?? (contents == null ? null : { contents })
        if (asked === null)
          throw invalid('contents: expected them, or generateContentRequest', 'contents')
        const context = readContext(
          { gateway, dialect: gemini as Dialect, findPeer, request },
          '',
          requestId,
        )
        const call = gemini.toCall(gateway, actor, { ...asked, model, stream: false }, context)
        const totalTokens = await countTokens(gateway, actor, call)
        return Response.json({ totalTokens }, { headers: { 'x-request-id': requestId } })
      },
      describe({
        ...SHARED,
        id: 'countTokens',
        summary: 'Count the tokens of contents',
        body: GeminiCountRequest,
        statuses: [200, 400, 401, 403, 404, 408, 413, 415, 429, 500],
      }),
    )
    .get(
      '/v1beta/models',
      ({ actor, request }) => {
        const { pageSize = 50, pageToken } = readQuery(request, ListQuery)
        const start = Number(pageToken ?? 0)
        const { data } = listCallableModels(gateway, {}, getPolicy(gateway, actor).rules, actor)
        const page = data.slice(start, start + pageSize)
        const rest = start + pageSize < data.length
        return {
          models: page.map(showModel),
          ...(rest ? { nextPageToken: String(start + pageSize) } : {}),
        }
      },
      describe({
        id: 'listGeminiModels',
        summary: 'List the models that the key can call',
        query: ListQuery,
        keyHeader: 'x-goog-api-key',
        statuses: [200, 400, 401, 500],
      }),
    )
    .get(
      '/v1beta/models/:model',
      ({ params: { model } }) => showModel(toPublicModel(getModel(gateway, model))),
      describe({
        ...SHARED,
        id: 'getGeminiModel',
        summary: 'Get a model in the form of the Gemini API',
        statuses: [200, 400, 401, 404, 500],
      }),
    )

const describe = (details: Omit<Operation, 'tag' | 'refusal'>) =>
  describeOperation({ tag: 'Gemini', refusal: GEMINI_ERROR_FORMAT, ...details })

/** Shows a model, or a preset that is listed as one, as the Gemini API does. */
function showModel({
  id,
  name,
  description,
  context_length,
  architecture,
  top_provider,
}: ReturnType<typeof toPublicModel>) {
  const most = top_provider.max_completion_tokens ?? context_length
  const isVector = architecture.output_modalities.includes('embeddings')
  return {
    name: `models/${id}`,
    version: '001',
    displayName: name,
    description,
    ...(context_length === null ? {} : { inputTokenLimit: context_length }),
    ...(most === null ? {} : { outputTokenLimit: most }),
    supportedGenerationMethods: isVector
      ? ['embedContent', 'batchEmbedContents']
      : ['generateContent', 'streamGenerateContent', 'countTokens'],
  }
}
