/** The most words of a query that are looked for, and the longest of them. */
const MAX_WORDS = 32
const LONGEST_WORD = 64

/** In characters: so much of a text is searched. To find a word can take the product of the lengths. */
const SEARCHED = 4_096

/**
 * Returns the items that have any word of the query in one of their texts: those with most words
 * first, and of these those that have them in their first text. Ties keep their order.
 */
export function rankByWords<Item>(
  items: Item[],
  query: string,
  listTexts: (item: Item) => string[],
): Item[] {
  const words = splitWords(query)
  return items
    .map(item => ({ item, score: scoreTexts(listTexts(item), words) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ item }) => item)
}

const splitWords = (query: string): string[] =>
  [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])]
    .filter(word => word.length <= LONGEST_WORD)
    .slice(0, MAX_WORDS)

function scoreTexts(texts: string[], words: string[]): number {
  const lower = texts.map(text => text.slice(0, SEARCHED).toLowerCase())
  const scores = words.map(word => {
    const at = lower.findIndex(text => text.includes(word))
    return at === -1 ? 0 : WORD + (lower.length - at)
  })
  return scores.reduce((sum, score) => sum + score, 0)
}

/** What a word counts; where it is found counts less. */
const WORD = 100
