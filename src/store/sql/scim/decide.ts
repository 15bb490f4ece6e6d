import { conflict } from '../../../base/errors.ts'
import type { Statement, Write } from '../write.ts'

/**
 * Runs a transaction that makes a decision, and returns it. A retried transaction decides again, so
 * the last decision counts.
 */
export async function decideInTransaction<Decision>(
  write: Write,
  buildSteps: (keep: <D extends Decision>(decision: D) => D) => Statement[],
): Promise<Decision> {
  const last: Decision[] = []
  const keep = <D extends Decision>(decision: D): D => {
    last[0] = decision
    return decision
  }
  await write(...buildSteps(keep))
  const [decision] = last
  if (decision === undefined) throw conflict()
  return decision
}
