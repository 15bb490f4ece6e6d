import { own } from '../../kernel/json.ts'

/** What vectors are for, as far as providers tell purposes apart. */
export type Purpose = 'query' | 'document' | 'similarity' | 'classification' | 'clustering'

/** The words for it that clients use: Cohere's, which the public API names, and other providers' own. */
const WORDS: Record<string, Purpose> = {
  query: 'query',
  search_query: 'query',
  retrieval_query: 'query',
  document: 'document',
  passage: 'document',
  search_document: 'document',
  retrieval_document: 'document',
  retrieval_passage: 'document',
  similarity: 'similarity',
  semantic_similarity: 'similarity',
  text_matching: 'similarity',
  classification: 'classification',
  clustering: 'clustering',
  separation: 'clustering',
}

/** The purpose that an `input_type` names; undefined where it is one provider's alone. */
export function purposeOf(input_type: string | undefined): Purpose | undefined {
  const word = input_type?.toLowerCase().replace(/[.-]/g, '_')
  return own(WORDS, word)
}
