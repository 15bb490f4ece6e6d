import { invalid } from '../../base/errors.ts'
import { findPeriodStart } from '../rollups/periods.ts'
import {
  addCall,
  addSums,
  type CallFacts,
  type CallSums,
  createSums,
  renderDay,
  toDay,
  toHour,
} from '../rollups.ts'

import type { CheckedQuery, Granularity } from './query.ts'

/** Measures a call; null if there is nothing to measure. */
type Measure = (call: CallFacts) => number | null

/** The calls of one row of a result: of a part of time, with the same values of dimensions. */
export interface ResultGroup {
  date: string | null
  values: string[]
  sums: CallSums
  /** What was measured of each call, by metric. */
  measured: Map<Measure, number[]>
}

/** More of them are no table that anyone reads, and take memory that calls need. */
const MOST_GROUPS = 50_000

/** Collects the groups of a result. */
export class ResultGroups {
  readonly #query: CheckedQuery
  readonly #groups = new Map<string, ResultGroup>()
  readonly #measures: Measure[]

  constructor(query: CheckedQuery) {
    this.#query = query
    const measures = query.metrics.flatMap(metric => ('measure' in metric ? metric.measure : []))
    this.#measures = [...new Set(measures)]
  }

  /** Adds sums of an hour or a day that begins at this moment. */
  addSums(moment: number, values: string[], sums: CallSums): void {
    addSums(this.#find(moment, values).sums, sums)
  }

  /** Adds one call that was settled at this moment. */
  addCall(moment: number, values: string[], call: CallFacts): void {
    const group = this.#find(moment, values)
    addCall(group.sums, call, call.isFiltered)
    for (const measure of this.#measures) {
      const value = measure(call)
      if (value === null) continue
      const measured = group.measured.get(measure) ?? []
      group.measured.set(measure, measured)
      measured.push(value)
    }
  }

  /** Returns all groups, with what was measured in order. */
  list(): ResultGroup[] {
    const groups = [...this.#groups.values()]
    for (const { measured } of groups)
      for (const values of measured.values()) values.sort((a, b) => a - b)
    return groups
  }

  #find(moment: number, values: string[]): ResultGroup {
    const date = this.#query.granularity && renderDate(this.#query.granularity, moment)
    const name = JSON.stringify([date, values])
    const known = this.#groups.get(name)
    if (known) return known
    if (this.#groups.size >= MOST_GROUPS)
      throw invalid(`dimensions: expected at most ${MOST_GROUPS} rows before the limit`)
    const group = { date, values, sums: createSums(), measured: new Map<Measure, number[]>() }
    this.#groups.set(name, group)
    return group
  }
}

/** Renders the part of time that a moment is in: a day, or the time at which it begins. */
function renderDate(granularity: Granularity, moment: number): string {
  if (granularity === 'minute') return `${new Date(moment).toISOString().slice(0, 16)}:00Z`
  if (granularity === 'hour') return `${new Date(moment).toISOString().slice(0, 13)}:00:00Z`
  return renderDay(findPeriodStart(granularity, toDay(toHour(moment))))
}
