import { compareTexts } from '../../kernel/sorting.ts'
import type { Comparison } from '../rollups.ts'

type Judge = (text: string, values: string[]) => boolean

/** Compares with the only value. */
const compare =
  (accepts: (order: number) => boolean): Judge =>
  (text, [value = '']) =>
    accepts(compareTexts(text, value))

const JUDGES: Record<Comparison, Judge> = {
  eq: (text, [value]) => text === value,
  neq: (text, [value]) => text !== value,
  in: (text, values) => values.includes(text),
  not_in: (text, values) => !values.includes(text),
  gt: compare(order => order > 0),
  gte: compare(order => order >= 0),
  lt: compare(order => order < 0),
  lte: compare(order => order <= 0),
}

/** Whether the text of a dimension meets a condition: as the store's own comparison. */
export const meetsCondition = (text: string, comparison: Comparison, values: string[]): boolean =>
  JUDGES[comparison](text, values)
