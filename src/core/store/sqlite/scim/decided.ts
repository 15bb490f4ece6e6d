import { conflict } from '../../../errors.ts'
import type { Statement, Write } from '../write.ts'

/**
 * Runs a transaction that makes a decision, and returns it. A retried transaction decides again, so
 * the last decision counts.
 */
export async function decided<Made>(
  write: Write,
  steps: (give: <One extends Made>(made: One) => One) => Statement[],
): Promise<Made> {
  const last: Made[] = []
  const give = <One extends Made>(made: One): One => {
    last[0] = made
    return made
  }
  await write(...steps(give))
  const [made] = last
  if (made === undefined) throw conflict()
  return made
}
