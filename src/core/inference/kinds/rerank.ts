import type { Block } from '../../language/message.ts'
import type { RerankCall, RerankDocument } from '../../language/rerank.ts'
import type { Units } from '../../language/units.ts'
import { computeLargestContent } from '../../tokenizers/prompt.ts'
import { defineKind } from './define-kind.ts'

/** Documents sorted by their relevance to a query. The charge is for tokens or ranking units. */
export const rerank = defineKind<'rerank'>({
  apiType: 'rerank',
  outputName: 'rerank',
  matchesModalities: modalities =>
    modalities.includes('rerank') || modalities.includes('embeddings'),
  isMeaningful: ({ type }) => type === 'ranking',
  understanding: { readContents, replaceContents },
  costing: { estimateUnits: countUnits },
})

/** The query comes first; a document follows as its text, its picture or both. */
function readContents({ query, documents }: RerankCall): Block[][] {
  return [[{ type: 'text', text: query }], ...documents.map(readDocument)]
}

const readDocument = ({ text, image }: RerankDocument): Block[] => [
  ...(text === undefined ? [] : [{ type: 'text' as const, text }]),
  ...(image === undefined ? [] : [{ type: 'image' as const, url: image }]),
]

function replaceContents(call: RerankCall, [query, ...contents]: Block[][]): RerankCall {
  return {
    ...call,
    query: findText(query ?? []) ?? '',
    documents: call.documents.map((_, i) => buildDocument(contents[i] ?? [])),
  }
}

function buildDocument(blocks: Block[]): RerankDocument {
  const text = findText(blocks)
  const image = blocks.find(block => block.type === 'image')
  return { ...(text === undefined ? {} : { text }), ...(image ? { image: image.url } : {}) }
}

const findText = (blocks: Block[]): string | undefined =>
  blocks.find(block => block.type === 'text')?.text

const DOCUMENTS_PER_UNIT = 100
const TOKENS_PER_CHUNK = 500

/**
 * Counts ranking units: a query over at most 100 documents, where a longer document counts once for
 * every 500 tokens of it and the query (Cohere's pricing page).
 */
function countUnits({ query, documents }: RerankCall): Units {
  const queryTokens = countTokens([{ type: 'text', text: query }])
  const chunks = documents.reduce(
    (sum, document) => sum + countChunks(queryTokens + countTokens(readDocument(document))),
    0,
  )
  return { search_unit: Math.max(1, Math.ceil(chunks / DOCUMENTS_PER_UNIT)) }
}

const countTokens = (blocks: Block[]): number => computeLargestContent(blocks).text

const countChunks = (tokens: number): number => Math.max(1, Math.ceil(tokens / TOKENS_PER_CHUNK))
