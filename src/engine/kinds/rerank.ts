import type { Block } from '../../language/message.ts'
import type { RerankCall, RerankDocument } from '../../language/rerank.ts'
import type { Units } from '../../language/usage.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { listDropped, omitNamed } from '../../translation/protocols/dropped.ts'
import {
  computeContentBound,
  computeLargestContent,
  type ExpectedInput,
  estimateContent,
} from '../../translation/tokenizers/prompt.ts'
import { defineKind, requireAll } from './define-kind.ts'

/** Documents sorted by their relevance to a query. The charge is for tokens or ranking units. */
export const rerank = defineKind<'rerank'>({
  apiType: 'rerank',
  outputName: 'rerank',
  matchesModalities: modalities =>
    modalities.includes('rerank') || modalities.includes('embeddings'),
  isMeaningful: ({ type }) => type === 'ranking',
  // A document is scored by itself, so that scores of several requests are of one scale.
  division: {
    countItems: ({ documents }) => documents.length,
    slice: (call, from, to) => ({ ...call, documents: call.documents.slice(from, to) }),
    shift: (part, from) => (part.type === 'ranking' ? { ...part, index: part.index + from } : part),
  },
  understanding: {
    readContents,
    replaceContents,
    checkEndpoint: (call, endpoint) => requireAll(call, listIgnored(call, endpoint)),
    supportsPreferred: (call, endpoint) => listIgnored(call, endpoint).length === 0,
    listIgnored,
    fitToEndpoint(call, endpoint) {
      const extra = omitNamed(call.extra, listIgnored(call, endpoint))
      return extra === call.extra ? call : { ...call, extra }
    },
  },
  costing: {
    estimateInput: call => repeatQuery(call, computeContentBound),
    boundInput: call => repeatQuery(call, computeLargestContent),
    countPrompts: ({ documents }) => documents.length,
    estimateUnits: countUnits,
  },
  metering: {
    async countInput({ query, documents }, count) {
      const [one, all] = [await count([query]), await estimateContent(readAll(documents), count)]
      return { ...all, text: all.text + one * documents.length }
    },
    countShares: ({ documents }) => documents.length,
  },
})

// Every server ranks all documents, and the gateway returns as many as are asked for.
function listIgnored({ extra }: RerankCall, endpoint: Endpoint): string[] {
  return listDropped(extra, endpoint)
}

const readAll = (documents: RerankDocument[]): Block[] => documents.flatMap(readDocument)

/** Counts the query once with each document, as providers do that charge for tokens. */
function repeatQuery(
  { query, documents }: RerankCall,
  countTokens: (blocks: Block[]) => ExpectedInput,
): ExpectedInput {
  const all = countTokens(readAll(documents))
  return { ...all, text: all.text + documents.length * countTokens([toText(query)]).text }
}

const toText = (text: string): Block => ({ type: 'text', text })

/** The query comes first; a document follows as its text, its picture or both. */
function readContents({ query, documents }: RerankCall): Block[][] {
  return [[toText(query)], ...documents.map(readDocument)]
}

const readDocument = ({ text, image }: RerankDocument): Block[] => [
  ...(text === undefined ? [] : [toText(text)]),
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
  const queryTokens = countTokens([toText(query)])
  const chunks = documents.reduce(
    (sum, document) => sum + countChunks(queryTokens + countTokens(readDocument(document))),
    0,
  )
  return { search_unit: Math.max(1, Math.ceil(chunks / DOCUMENTS_PER_UNIT)) }
}

const countTokens = (blocks: Block[]): number => computeLargestContent(blocks).text

const countChunks = (tokens: number): number => Math.max(1, Math.ceil(tokens / TOKENS_PER_CHUNK))
