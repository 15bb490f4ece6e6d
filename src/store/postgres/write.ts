import type { SQL } from 'bun'
import { conflict } from '../../base/errors.ts'
import type { Seal } from '../sql/seals/changes.ts'
import type { Statement, Write } from '../sql/write.ts'
import { answerWithin, explainFaults, PATIENCE, type Runner, readCode, run } from './connection.ts'

/** A unique index, or a row that refers to another. */
const CONFLICTS = new Set(['23505', '23503'])
/** Two transactions that waited for each other: the one that was ended begins again. */
const DEADLOCK = '40P01'

/** How a store is written, and how often this process has done so. */
export interface PostgresWriter {
  write: Write
  /** Does something in a transaction of its own, as `write` does. */
  transact(work: (connection: Runner) => Promise<unknown>): Promise<void>
  /** How many of its changes are in the database. */
  readonly changes: number
}

/**
 * Creates the writer of a store. Transactions come one after the other, also those of other
 * processes: each locks the gate first, so that what it checks holds until it ends. `seal` adds their
 * seals to the statements of each.
 */
export function createWriter(pool: SQL, seal: Seal): PostgresWriter {
  let changes = 0
  const transact: PostgresWriter['transact'] = async work => {
    await retryDeadlocks(() =>
      pool.begin(async connection => {
        await run(connection, 'update gate set changes = changes + 1')
        await work(connection)
      }),
    )
    changes += 1
  }
  return {
    get changes() {
      return changes
    },
    transact,
    write: (...statements) =>
      answerWithin(PATIENCE.write, () =>
        transact(async connection => {
          for (const statement of seal(statements)) await runStep(connection, statement)
        }),
      ),
  }
}

/** Runs a step of a transaction, and those that its rows ask for. */
export async function runStep(connection: Runner, statement: Statement): Promise<void> {
  if ('later' in statement) {
    for (const next of statement.later()) await runStep(connection, next)
    return
  }
  const { sql, parameters } = ('query' in statement ? statement.query : statement).compile()
  const rows = await run(connection, sql, parameters)
  if ('judge' in statement) statement.judge(rows)
  else if ('follow' in statement)
    for (const next of statement.follow(rows)) await runStep(connection, next)
}

async function retryDeadlocks(transact: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await explainFaults(transact)
      return
    } catch (thrown) {
      const code = readCode(thrown)
      if (CONFLICTS.has(code))
        throw conflict('It was changed at the same moment. Please try again.')
      if (code !== DEADLOCK) throw thrown
    }
  }
}
