import { type Static, Type } from '@sinclair/typebox'

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
