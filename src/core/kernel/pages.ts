import { type Static, Type } from '@sinclair/typebox'

/** The query of a list that gives at most so many items at once. */
export const pageQuery = (maximum: number) =>
  Type.Object({
    offset: Type.Optional(Type.Integer({ minimum: 0 })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum })),
  })

/** The query of most lists. */
export const PageQuery = pageQuery(100)
export type PageQuery = Static<typeof PageQuery>

/** How many items a page has when the query does not say. */
export const PAGE_SIZE = 50

/** Cuts one page out of a list, as the wire shows it, and counts the list. */
export function pageOf<Item, Shown>(items: Item[], query: PageQuery, show: (item: Item) => Shown) {
  const { offset = 0, limit = PAGE_SIZE } = query
  return { data: items.slice(offset, offset + limit).map(show), total_count: items.length }
}
