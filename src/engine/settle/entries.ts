import type { Run, Step } from '../run.ts'

/**
 * Drops the entries of a run in the journal, and of those inside it: all but that of the step that
 * goes on, if there is one.
 */
export function forgetEntries({ steps, toolMoney, inner }: Run, next?: Step): void {
  for (const run of inner) forgetEntries(run)
  for (const { journalEntry } of toolMoney ?? []) journalEntry?.forget()
  for (const step of steps) {
    step.outrun?.journalEntry?.forget()
    if (step !== next) step.journalEntry?.forget()
  }
}
