import type { App } from './apps.ts'

/** How many turns a session had, as the public dataset groups them (specification, E12). */
export const TURN_RANGES = ['1-turn', '2-9-turns', '10-49-turns', '50-plus-turns'] as const
export type TurnRange = (typeof TURN_RANGES)[number]

/** The fewest turns of each range, in the same order. */
export const FEWEST_TURNS = [1, 2, 10, 50] as const

/** What a session did in one week with one model. */
export interface SessionSums {
  turns: number
  /** In nano-dollars, with what was paid at providers for calls with own keys. */
  cost: bigint
  /** Calls whose price is not known. */
  unpriced_calls: number
}

/** Sessions of one app with one model and about as many turns. */
export interface SessionCell {
  app: App
  model: string
  turn_range: TurnRange
  sessions: number
  /** The median of what they cost, in nano-dollars. */
  median: number
}

/** Which cells are listed. */
export interface CellBounds {
  /** The fewest sessions of a cell. */
  sessions: number
  /** The fewest workspaces that they are of. */
  workspaces: number
  /** The workspace whose sessions alone count; null for all. */
  workspace_id: string | null
}
