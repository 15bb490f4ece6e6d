import { type Static, Type } from '@sinclair/typebox'
import { pickFirst } from './sorting.ts'

/** Builds the query of a list that returns at most `maximum` items at once. */
export const pageQuery = (maximum: number) =>
  Type.Object({
    offset: Type.Optional(Type.Integer({ minimum: 0 })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum })),
  })

/** The query of most lists. */
export const PageQuery = pageQuery(100)
export type PageQuery = Static<typeof PageQuery>

/** The number of items on a page when the query states none. */
export const PAGE_SIZE = 50

/** Returns one page of a list, in its wire form, with the size of the list. */
export function toPage<Item, Shown>(items: Item[], query: PageQuery, show: (item: Item) => Shown) {
  const { offset = 0, limit = PAGE_SIZE } = query
  return { data: items.slice(offset, offset + limit).map(show), total_count: items.length }
}

/**
 * Returns one page of a list in order, in its wire form, with the size of the list. Most pages are
 * the first, and a list may be long: what comes after the page is not sorted.
 */
export function toSortedPage<Item, Shown>(
  items: readonly Item[],
  compare: (a: Item, b: Item) => number,
  query: PageQuery,
  show: (item: Item) => Shown,
) {
  const { offset = 0, limit = PAGE_SIZE } = query
  const first = pickFirst(items, offset + limit, compare)
  return { data: first.slice(offset).map(show), total_count: items.length }
}
