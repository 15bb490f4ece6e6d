import { isObject, type Json, readObjects } from '../../../base/json.ts'
import type { EmbeddingCall, EmbeddingPart } from '../../../language/embedding.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { readFailure } from '../bedrock-converse/failure.ts'
import {
  assertInputCount,
  embeddingDefaults,
  parsePurpose,
  readTexts,
  toEmbeddingParts,
} from '../embeddings.ts'
import { unreadableAnswer } from '../failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { findCounts } from '../reader.ts'
import { isCohere, isNova, NOVA_PURPOSES, pickNovaPurpose } from './capabilities.ts'
import {
  buildBody as buildCohereBody,
  MAX_INPUTS,
  parseAnswer as parseCohereAnswer,
} from './cohere.ts'

/**
 * The embedding models of Amazon Bedrock: `POST {base_url}/model/{model}/invoke`. Every maker's
 * models have bodies of their own
 * (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html).
 */
export const bedrockEmbeddings: Protocol<'embedding'> = {
  ...embeddingDefaults,
  urlMedia: [],
  // Amazon's own models return one vector per request.
  getMostItems: endpoint => (findMaker(endpoint) === cohere ? MAX_INPUTS : 1),
  buildRequest,
  parseAnswer,
  readFailure,
}

/** The requests and answers of one maker's models. */
interface Maker {
  buildBody(call: EmbeddingCall): Json
  parseAnswer(body: unknown, call: EmbeddingCall): EmbeddingPart[]
}

const cohere: Maker = {
  buildBody: call => ({ ...buildCohereBody(call), embedding_types: ['float'] }),
  parseAnswer: parseCohereAnswer,
}

const titan: Maker = {
  buildBody: call => ({
    ...call.extra,
    inputText: readSingleText(call),
    ...renderDimensions('dimensions', call),
  }),
  parseAnswer: (body, call) => {
    if (!isObject(body)) throw unreadableAnswer()
    return toEmbeddingParts(call, {
      vectors: [body.embedding],
      usage: findCounts(body),
    })
  },
}

const nova: Maker = {
  buildBody: call => ({
    ...call.extra,
    taskType: 'SINGLE_EMBEDDING',
    singleEmbeddingParams: {
      embeddingPurpose: renderPurpose(call),
      ...renderDimensions('embeddingDimension', call),
      text: { truncationMode: 'NONE', value: readSingleText(call) },
    },
  }),
  parseAnswer: (body, call) => {
    if (!isObject(body)) throw unreadableAnswer()
    return toEmbeddingParts(call, {
      vectors: readObjects(body.embeddings).map(({ embedding }) => embedding),
      usage: findCounts(body),
    })
  },
}

// Nova requires a purpose. Most texts that are embedded are documents to be searched.
function renderPurpose({ params: { input_type } }: EmbeddingCall): string {
  const purpose = parsePurpose(input_type)
  const name = purpose === undefined ? pickNovaPurpose(input_type) : NOVA_PURPOSES[purpose]
  return name ?? 'GENERIC_INDEX'
}

function findMaker(endpoint: Endpoint): Maker {
  if (isCohere(endpoint)) return cohere
  return isNova(endpoint) ? nova : titan
}

function buildRequest(call: EmbeddingCall, endpoint: Endpoint): UpstreamRequest {
  return {
    path: `/model/${encodeURIComponent(endpoint.upstreamModel)}/invoke`,
    body: findMaker(endpoint).buildBody(call),
  }
}

function parseAnswer(body: unknown, call: EmbeddingCall, endpoint: Endpoint): EmbeddingPart[] {
  return findMaker(endpoint).parseAnswer(body, call)
}

function readSingleText(call: EmbeddingCall): string {
  assertInputCount(1, call)
  return readTexts(call).join('')
}

const renderDimensions = (name: string, { params: { dimensions } }: EmbeddingCall): Json =>
  dimensions === undefined ? {} : { [name]: dimensions }
