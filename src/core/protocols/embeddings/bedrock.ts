import type { Endpoint } from '../../catalog/models.ts'
import { count, isObject, type Json, objects } from '../../kernel/json.ts'
import type { EmbeddingCall, EmbeddingPart } from '../../language/embedding.ts'
import { textUsage, type Usage } from '../../language/usage.ts'
import { failure } from '../bedrock-converse/failure.ts'
import { answerOf, atMost, purposeOf, textsOf, whole } from '../embeddings.ts'
import { unreadable } from '../failure.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { bodyOf as cohereBody, parts as cohereParts } from './cohere.ts'

/**
 * The embedding models of Amazon Bedrock: `POST {base_url}/model/{model}/invoke`. Every maker's
 * models have bodies of their own
 * (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html).
 */
export const bedrockEmbeddings: Protocol<'embedding'> = {
  ...whole,
  takesUrls: [],
  request,
  parts,
  failure,
}

/** The requests and answers of one maker's models. */
interface Maker {
  body(call: EmbeddingCall): Json
  parts(body: unknown, call: EmbeddingCall): EmbeddingPart[]
}

const cohere: Maker = {
  body: call => ({ ...cohereBody(call), embedding_types: ['float'] }),
  parts: cohereParts,
}

const titan: Maker = {
  body: call => ({ ...call.extra, inputText: only(call), ...dimensionsOf('dimensions', call) }),
  parts: (body, call) => {
    if (!isObject(body)) throw unreadable()
    return answerOf(call, { vectors: [body.embedding], usage: usageOf(body.inputTextTokenCount) })
  },
}

const nova: Maker = {
  body: call => ({
    ...call.extra,
    taskType: 'SINGLE_EMBEDDING',
    singleEmbeddingParams: {
      embeddingPurpose:
        purposeOf(call.params.input_type) === 'query' ? 'GENERIC_RETRIEVAL' : 'GENERIC_INDEX',
      ...dimensionsOf('embeddingDimension', call),
      text: { truncationMode: 'NONE', value: only(call) },
    },
  }),
  parts: (body, call) => {
    if (!isObject(body)) throw unreadable()
    return answerOf(call, {
      vectors: objects(body.embeddings).map(({ embedding }) => embedding),
      usage: usageOf(body.inputTokenCount),
    })
  },
}

/**
 * The makers by Bedrock's model names. An inference profile has its regions in front of the name.
 */
const MAKERS: [model: RegExp, maker: Maker][] = [
  [/cohere\.embed-/, cohere],
  [/amazon\.nova-/, nova],
]

const makerOf = ({ upstreamModel }: Endpoint): Maker =>
  MAKERS.find(([model]) => model.test(upstreamModel))?.[1] ?? titan

function request(call: EmbeddingCall, endpoint: Endpoint): UpstreamRequest {
  return {
    path: `/model/${encodeURIComponent(endpoint.upstreamModel)}/invoke`,
    body: makerOf(endpoint).body(call),
  }
}

function parts(body: unknown, call: EmbeddingCall, endpoint: Endpoint): EmbeddingPart[] {
  return makerOf(endpoint).parts(body, call)
}

// Amazon's own models return one vector per request.
function only(call: EmbeddingCall): string {
  atMost(1, call)
  return textsOf(call).join('')
}

const dimensionsOf = (name: string, { params: { dimensions } }: EmbeddingCall): Json =>
  dimensions === undefined ? {} : { [name]: dimensions }

function usageOf(given: unknown): Usage | undefined {
  const tokens = count(given)
  return tokens === undefined ? undefined : textUsage(tokens, 0)
}
