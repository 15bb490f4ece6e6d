import type { Work } from '../../kernel/turns.ts'
import { Machine, NOTHING, type OnMatch } from './machine.ts'
import type { Program } from './program.ts'

/** After this many instructions others may have their turn: about a millisecond. */
const MOST_STEPS = 50_000

/**
 * Finds every match of a program in a whole text: those that a machine finds, in the same order.
 * The machine reads only where the automaton says that a match may be. Returns how many
 * instructions ran.
 */
export function* searchText(program: Program, text: string, onMatch: OnMatch): Work<number> {
  const { automaton } = program
  const stepsBefore = automaton.steps
  let machine: Machine | undefined
  let offset = 0
  while (offset < text.length) {
    const candidate = yield* automaton.findCandidate(text, offset)
    if (candidate === null) break
    machine ??= new Machine(program, onMatch)
    machine.jumpTo(candidate, candidate === 0 ? NOTHING : text.charCodeAt(candidate - 1))
    offset = yield* readMatches(machine, text, candidate)
  }
  return (machine?.steps ?? 0) + automaton.steps - stepsBefore
}

/** Reads from an offset until nothing is open there, and returns how far. */
function* readMatches(machine: Machine, text: string, from: number): Work<number> {
  let offset = from
  do {
    offset = machine.readUntilIdle(text, offset, text.length, MOST_STEPS)
    yield
  } while (offset < text.length && !machine.isIdle)
  if (offset === text.length) machine.end()
  return offset
}
