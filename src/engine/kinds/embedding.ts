import { denied } from '../../base/errors.ts'
import type { EmbeddingCall, EmbeddingInput } from '../../language/embedding.ts'
import type { Block } from '../../language/message.ts'
import type { TextRewrite } from '../../language/text-segment.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { omitNamed } from '../../translation/protocols/dropped.ts'
import { listIgnoredEmbedding } from '../../translation/protocols/embeddings/capabilities.ts'
import {
  computeContentBound,
  computeLargestContent,
  type ExpectedInput,
  estimateContent,
} from '../../translation/tokenizers/prompt.ts'
import { defineKind, requireAll } from './define-kind.ts'
import { rewriteContents } from './rewrite.ts'

/** Vectors of texts, and of whatever else a model accepts. The charge is for the input. */
export const embedding = defineKind<'embedding'>({
  apiType: 'embeddings',
  outputName: 'embeddings',
  division: {
    countItems: ({ inputs }) => inputs.length,
    slice: (call, from, to) => ({ ...call, inputs: call.inputs.slice(from, to) }),
    shift: (part, from) =>
      part.type === 'embedding' ? { ...part, index: part.index + from } : part,
  },
  understanding: {
    readContents,
    replaceContents,
    checkEndpoint: (call, endpoint) => requireAll(call, listIgnoredEmbedding(call, endpoint)),
    supportsPreferred: (call, endpoint) => listIgnoredEmbedding(call, endpoint).length === 0,
    listIgnored: listIgnoredEmbedding,
    fitToEndpoint,
  },
  costing: {
    estimateInput: call => addTokens(call, computeContentBound(readBlocks(call))),
    boundInput: call => addTokens(call, computeLargestContent(readBlocks(call))),
  },
  metering: {
    async countInput(call, count) {
      return addTokens(call, await estimateContent(readBlocks(call), count))
    },
  },
  filtering: { rewriteTexts },
})

function fitToEndpoint(call: EmbeddingCall, endpoint: Endpoint): EmbeddingCall {
  const ignored = listIgnoredEmbedding(call, endpoint)
  if (ignored.length === 0) return call
  return {
    ...call,
    params: omitNamed(call.params, ignored),
    extra: omitNamed(call.extra, ignored),
  }
}

function readContents({ inputs }: EmbeddingCall): Block[][] {
  return inputs.map(input => {
    if (input.type === 'content') return input.blocks
    return input.type === 'text' ? [{ type: 'text', text: input.text }] : []
  })
}

const readBlocks = (call: EmbeddingCall): Block[] => readContents(call).flat()

function replaceContents(call: EmbeddingCall, contents: Block[][]): EmbeddingCall {
  return { ...call, inputs: call.inputs.map((input, i) => replaceInput(input, contents[i] ?? [])) }
}

function replaceInput(input: EmbeddingInput, blocks: Block[]): EmbeddingInput {
  if (input.type === 'content') return { ...input, blocks }
  const [block] = blocks
  return input.type === 'text' && block?.type === 'text' ? { ...input, text: block.text } : input
}

/** Adds inputs that come as tokens, which are counted already. */
function addTokens({ inputs }: EmbeddingCall, input: ExpectedInput) {
  const counts = inputs.map(entry => (entry.type === 'tokens' ? entry.tokens.length : 0))
  return { ...input, text: counts.reduce((sum, tokens) => sum + tokens, input.text) }
}

const UNREADABLE = 'inputs given as tokens cannot be read, send them as text'

// Inputs that cannot be filtered are blocked, and filters cannot read tokens.
async function rewriteTexts(
  call: EmbeddingCall,
  rewriteSegment: TextRewrite,
): Promise<EmbeddingCall> {
  const isUnreadable = call.inputs.some(({ type }) => type === 'tokens')
  if (isUnreadable) throw denied(`Request blocked by content filter: ${UNREADABLE}`)
  return replaceContents(call, await rewriteContents(readContents(call), rewriteSegment))
}
