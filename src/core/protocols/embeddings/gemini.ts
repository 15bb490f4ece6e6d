import type { Endpoint } from '../../catalog/models.ts'
import { dataUrl, isDataUrl } from '../../kernel/data-url.ts'
import { count, isObject, type Json, member, objects } from '../../kernel/json.ts'
import type { EmbeddingCall, EmbeddingPart } from '../../language/embedding.ts'
import type { Block } from '../../language/message.ts'
import { textUsage, type Usage } from '../../language/usage.ts'
import {
  answerOf,
  atMost,
  blocksOf,
  type Purpose,
  purposeOf,
  refuse,
  textsOf,
  whole,
} from '../embeddings.ts'
import { unreadable } from '../failure.ts'
import { isVertex } from '../gemini/capabilities.data.ts'
import { failure, failureInside } from '../gemini/failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'

/**
 * Google's embeddings: `:embedContent` for one input and `:batchEmbedContents` for several
 * (https://ai.google.dev/api/embeddings). On Vertex, older models have `:predict` instead.
 */
export const geminiEmbeddings: Protocol<'embedding'> = {
  ...whole,
  takesUrls: [],
  request,
  parts,
  failure,
}

function request(call: EmbeddingCall, endpoint: Endpoint): UpstreamRequest {
  const { upstreamModel } = endpoint
  const atVertex = isVertex(endpoint)
  const path = `/models/${encodeURIComponent(upstreamModel)}`
  if (atVertex && PREDICTED.some(model => model.test(upstreamModel)))
    return { path: `${path}:predict`, body: prediction(call) }
  atMost(atVertex ? 1 : MOST_INPUTS, call)
  const named = atVertex ? {} : { model: `models/${upstreamModel}` }
  const requests = call.inputs.map(input => ({
    ...wishes(call),
    ...named,
    content: { parts: blocksOf(input).map(part) },
  }))
  const [only] = requests
  if (requests.length === 1 && only) return { path: `${path}:embedContent`, body: only }
  return { path: `${path}:batchEmbedContents`, body: { requests } }
}

const MOST_INPUTS = 100

/**
 * The models that Vertex serves under `:predict`
 * (https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api).
 */
const PREDICTED = [
  /^text-(multilingual-)?embedding-/,
  /^textembedding-gecko/,
  /^gemini-embedding-001$/,
]

function prediction(call: EmbeddingCall): Json {
  const { outputDimensionality, taskType, ...rest } = wishes(call)
  const task_type = taskType === undefined ? {} : { task_type: taskType }
  return {
    ...rest,
    instances: textsOf(call).map(content => ({ content, ...task_type })),
    ...(outputDimensionality === undefined ? {} : { parameters: { outputDimensionality } }),
  }
}

const PURPOSES: Record<Purpose, string> = {
  query: 'RETRIEVAL_QUERY',
  document: 'RETRIEVAL_DOCUMENT',
  similarity: 'SEMANTIC_SIMILARITY',
  classification: 'CLASSIFICATION',
  clustering: 'CLUSTERING',
}

/** Google's names for purposes that no other provider has. */
const OWN_PURPOSES = new Set(['QUESTION_ANSWERING', 'FACT_VERIFICATION', 'CODE_RETRIEVAL_QUERY'])

function wishes({ extra, params: { dimensions, input_type } }: EmbeddingCall): Json {
  const purpose = purposeOf(input_type)
  const taskType = purpose === undefined ? input_type?.toUpperCase() : PURPOSES[purpose]
  return {
    ...extra,
    ...(taskType !== undefined && (purpose !== undefined || OWN_PURPOSES.has(taskType))
      ? { taskType }
      : {}),
    ...(dimensions === undefined ? {} : { outputDimensionality: dimensions }),
  }
}

function part(block: Block): Json {
  if (block.type === 'text') return { text: block.text }
  const url = urlOf(block)
  if (url === undefined || !isDataUrl(url))
    return refuse(`${block.type} that is not in the request itself`)
  const { media_type, data } = dataUrl(url, 'input')
  return { inlineData: { mimeType: media_type, data } }
}

function urlOf(block: Block): string | undefined {
  if (block.type === 'image' || block.type === 'video') return block.url
  if (block.type === 'audio') return `data:audio/${block.format};base64,${block.data}`
  return block.type === 'file' ? block.file.file_data : undefined
}

function parts(body: unknown, call: EmbeddingCall): EmbeddingPart[] {
  if (!isObject(body)) throw unreadable()
  if (isObject(body.error)) throw failureInside(body.error)
  return answerOf(call, { vectors: vectorsOf(body), usage: usageOf(body) })
}

function vectorsOf(body: Json): unknown[] {
  if (isObject(body.embedding)) return [body.embedding.values]
  const given = Array.isArray(body.predictions)
    ? objects(body.predictions).map(one => member(one, 'embeddings'))
    : objects(body.embeddings)
  return given.map(({ values }) => values)
}

/**
 * Reads the usage. Vertex counts each text; the Gemini API counts the whole request, or not at all.
 */
function usageOf(body: Json): Usage | undefined {
  const counts = objects(body.predictions).map(one =>
    count(member(member(one, 'embeddings'), 'statistics').token_count),
  )
  const total =
    counts.length > 0 ? sumOf(counts) : count(member(body, 'usageMetadata').promptTokenCount)
  return total === undefined ? undefined : textUsage(total, 0)
}

const sumOf = (counts: (number | undefined)[]): number | undefined =>
  counts.reduce(
    (sum, tokens) => (sum === undefined || tokens === undefined ? undefined : sum + tokens),
    0,
  )
