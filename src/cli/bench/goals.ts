import type { CaseName } from './cases.ts'

/** What the gateway wants to be, and what was measured. Null where nothing was. */
export interface Goal {
  goal: string
  unit: string
  most: number
  measured: number | null
  state: 'met' | 'missed' | 'no verdict' | 'not measured'
}

/** So many rounds the ten-line proxy needs, and so close its quartiles have to be. */
const STEADY = { rounds: 4, spread: 0.15 }

/** Tells whether the machine was quiet enough, by a program that does the same in each round. */
export const isSteady = (floor: Row | undefined): boolean =>
  floor !== undefined &&
  floor.rounds >= STEADY.rounds &&
  floor.cpu_spread !== null &&
  floor.cpu_spread <= STEADY.spread

/**
 * One case of one program: medians of the rounds. Times of streams are those to the first chunk.
 * Null is what the case or the program does not have.
 */
export interface Row {
  case: CaseName
  contender: string
  unit: string
  calls: number
  errors: number
  cpu_us: number | null
  calls_per_second: number | null
  p50_ms: number | null
  p99_ms: number | null
  relay_p99_ms: number | null
  resident_mb: number | null
  /** The CPU time by that of the ten-line proxy in the same round: median and quartiles. */
  ratio: number | null
  ratio_q1: number | null
  ratio_q3: number | null
  /** How many rounds have a CPU time, and how far its quartiles are apart, as a share of it. */
  rounds: number
  cpu_spread: number | null
}

/** How a gateway starts: medians, in milliseconds and MB. */
export interface StartUp {
  version_ms: number
  first_answer_ms: number
  idle_mb: number | null
}
