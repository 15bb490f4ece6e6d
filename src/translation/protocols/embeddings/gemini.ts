import { isDataUrl, parseDataUrl } from '../../../base/data-url.ts'
import { isObject, type Json, parseCount, readObject, readObjects } from '../../../base/json.ts'
import type { EmbeddingCall, EmbeddingPart } from '../../../language/embedding.ts'
import type { Block } from '../../../language/message.ts'
import { createTextUsage, type Usage } from '../../../language/usage.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import {
  assertInputCount,
  embeddingDefaults,
  listBlocks,
  type Purpose,
  parsePurpose,
  readTexts,
  refuseContent,
  toEmbeddingParts,
} from '../embeddings.ts'
import { unreadableAnswer } from '../failure.ts'
import { isVertex } from '../gemini/capabilities.data.ts'
import { readFailure, readStreamFailure } from '../gemini/failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { findCounts } from '../reader.ts'
import { pickGooglePurpose } from './capabilities.ts'

/**
 * Google's embeddings: `:embedContent` for one input and `:batchEmbedContents` for several
 * (https://ai.google.dev/api/embeddings). On Vertex, older models have `:predict` instead.
 */
export const geminiEmbeddings: Protocol<'embedding'> = {
  ...embeddingDefaults,
  urlMedia: [],
  getMostItems,
  buildRequest,
  parseAnswer,
  readFailure,
}

function buildRequest(call: EmbeddingCall, endpoint: Endpoint): UpstreamRequest {
  const { upstreamModel } = endpoint
  const atVertex = isVertex(endpoint)
  const path = `/models/${encodeURIComponent(upstreamModel)}`
  if (isPredicted(endpoint)) return { path: `${path}:predict`, body: buildPrediction(call) }
  assertInputCount(getMostItems(endpoint), call)
  const modelField = atVertex ? {} : { model: `models/${upstreamModel}` }
  const requests = call.inputs.map(input => ({
    ...renderOptions(call),
    ...modelField,
    content: { parts: listBlocks(input).map(renderPart) },
  }))
  const [only] = requests
  if (requests.length === 1 && only) return { path: `${path}:embedContent`, body: only }
  return { path: `${path}:batchEmbedContents`, body: { requests } }
}

const MAX_INPUTS = 100
const MAX_PREDICTED = 250

function getMostItems(endpoint: Endpoint): number {
  if (!isVertex(endpoint)) return MAX_INPUTS
  const takesOne = endpoint.upstreamModel === 'gemini-embedding-001' || !isPredicted(endpoint)
  return takesOne ? 1 : MAX_PREDICTED
}

const isPredicted = (endpoint: Endpoint): boolean =>
  isVertex(endpoint) && PREDICT_MODELS.some(model => model.test(endpoint.upstreamModel))

/**
 * The models that Vertex serves under `:predict`
 * (https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api).
 */
const PREDICT_MODELS = [
  /^text-(multilingual-)?embedding-/,
  /^textembedding-gecko/,
  /^gemini-embedding-001$/,
]

function buildPrediction(call: EmbeddingCall): Json {
  const { outputDimensionality, taskType, ...rest } = renderOptions(call)
  const task_type = taskType === undefined ? {} : { task_type: taskType }
  return {
    ...rest,
    instances: readTexts(call).map(content => ({ content, ...task_type })),
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

function renderOptions({ extra, params: { dimensions, input_type } }: EmbeddingCall): Json {
  const purpose = parsePurpose(input_type)
  const taskType = purpose === undefined ? pickGooglePurpose(input_type) : PURPOSES[purpose]
  return {
    ...extra,
    ...(taskType === undefined ? {} : { taskType }),
    ...(dimensions === undefined ? {} : { outputDimensionality: dimensions }),
  }
}

function renderPart(block: Block): Json {
  if (block.type === 'text') return { text: block.text }
  const url = getUrl(block)
  if (url === undefined || !isDataUrl(url))
    return refuseContent(`${block.type} that is not in the request itself`)
  const { media_type, data } = parseDataUrl(url, 'input')
  return { inlineData: { mimeType: media_type, data } }
}

function getUrl(block: Block): string | undefined {
  if (block.type === 'image' || block.type === 'video') return block.url
  if (block.type === 'audio') return `data:audio/${block.format};base64,${block.data}`
  return block.type === 'file' ? block.file.file_data : undefined
}

function parseAnswer(body: unknown, call: EmbeddingCall): EmbeddingPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (isObject(body.error)) throw readStreamFailure(body.error)
  return toEmbeddingParts(call, { vectors: readVectors(body), usage: readUsage(body) })
}

function readVectors(body: Json): unknown[] {
  if (isObject(body.embedding)) return [body.embedding.values]
  const embeddings = Array.isArray(body.predictions)
    ? readObjects(body.predictions).map(prediction => readObject(prediction, 'embeddings'))
    : readObjects(body.embeddings)
  return embeddings.map(({ values }) => values)
}

/**
 * Reads the usage. Vertex counts each text; the Gemini API counts the whole request, or not at all.
 */
function readUsage(body: Json): Usage | undefined {
  const counts = readObjects(body.predictions).map(prediction =>
    parseCount(readObject(readObject(prediction, 'embeddings'), 'statistics').token_count),
  )
  const total = sumCounts(counts)
  if (counts.length === 0 || total === undefined) return findCounts(body)
  return createTextUsage(total, 0)
}

const sumCounts = (counts: (number | undefined)[]): number | undefined =>
  counts.reduce(
    (sum, tokens) => (sum === undefined || tokens === undefined ? undefined : sum + tokens),
    0,
  )
