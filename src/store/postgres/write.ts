import { conflict } from '../../base/errors.ts'
import { type ChangeFeed, type Entry, FIND_LAST } from '../sql/changes.ts'
import type { Seal } from '../sql/seals.ts'
import { Prepared, prepare, type Statement, type Write } from '../sql/write.ts'
import {
  answerWithin,
  explainFaults,
  type Lane,
  PATIENCE,
  type Runner,
  readCode,
  run,
  transact,
} from './connection.ts'
import type { Pool } from './pool.ts'

/** A unique index, or a row that refers to another. */
const CONFLICTS = new Set(['23505', '23503'])
/** Two transactions that waited for each other: the one that was ended begins again. */
const DEADLOCK = '40P01'

/** How a store is written, and how often this process has done so. */
export interface PostgresWriter {
  write: Write
  /** Tells no other process: for what none keeps in memory. */
  writeQuietly: Write
  /**
   * Waits for no other transaction: for what no two of them decide differently. Of simultaneous
   * inserts of one row each but the first sees that row.
   */
  writeAlone: Write
  /** Does something in a transaction of its own, as `write` does. */
  transact(work: (connection: Runner) => Promise<unknown>): Promise<void>
  /** How many of its changes are in the database. */
  readonly changes: number
}

/** The newest entries of the feed before and after a transaction. */
type Ends = (Entry | undefined)[]

/** Where the other servers hear that something has changed, and what they are told: who did it. */
export const CHANNEL = 'gateway'

/**
 * Creates the writer of a store. Transactions come one after the other, also those of other
 * processes: each locks the gate first, so that what it checks holds until it ends. `seal` adds their
 * seals to the statements of each, and `feed` hears which changes are this process's. Others hear of a
 * change under the name of this process.
 */
export function createWriter(
  pool: Pool,
  { seal, feed, name, lane }: { seal: Seal; feed: ChangeFeed; name: string; lane: Lane },
): PostgresWriter {
  let changes = 0
  const takeTurn = (work: (connection: Runner) => Promise<unknown>) => lane(() => begin(pool, work))
  const transactLoudly = async (work: (connection: Runner) => Promise<unknown>) => {
    let ends: Ends = []
    await takeTurn(async connection => {
      await run(connection, 'update gate set changes = changes + 1')
      // Not in the same statement, which sees what was there before it had the gate.
      const findLast = () => run<Entry>(connection, FIND_LAST)
      const [[before]] = await Promise.all([findLast(), work(connection)])
      const notify = run(connection, 'select pg_notify(?, ?)', [CHANNEL, name])
      const [[last]] = await Promise.all([findLast(), notify])
      ends = [before, last]
    })
    return ends
  }
  const count = (ends: Ends) => {
    feed.noteOwn(...ends)
    changes += 1
  }
  const transactQuietly = (work: (connection: Runner) => Promise<unknown>) =>
    takeTurn(async connection => {
      await run(connection, 'select changes from gate for update')
      await work(connection)
    })
  const createWrite =
    <Result>(
      transact: (work: (connection: Runner) => Promise<unknown>) => Promise<Result>,
      onDone?: (result: Result) => void,
    ): Write =>
    async (...statements) => {
      const work = (connection: Runner) => runSteps(connection, seal(statements))
      // What is done too late is not known to be this process's: it is read again.
      const result = await answerWithin(PATIENCE.write, () => transact(work))
      onDone?.(result)
    }
  return {
    get changes() {
      return changes
    },
    transact: async work => count(await transactLoudly(work)),
    write: createWrite(transactLoudly, count),
    writeQuietly: createWrite(transactQuietly),
    writeAlone: createWrite(work => begin(pool, work, 1)),
  }
}

/**
 * Runs steps of a transaction one after the other, each with those that its rows ask for. Those whose
 * rows nobody asks for are sent together: the connection keeps their order.
 */
export async function runSteps(connection: Runner, steps: Statement[]): Promise<void> {
  let sent: Promise<void>[] = []
  for (const step of joinInserts(steps)) {
    const isAsked = 'later' in step || 'judge' in step || 'follow' in step
    if (isAsked) await Promise.all(sent.splice(0))
    const run = runStep(connection, step)
    if (isAsked) await run
    else sent.push(run)
    if (sent.length === MOST_SENT) sent = await Promise.all(sent).then(() => [])
  }
  await Promise.all(sent)
}

/** As many steps are sent before what came of them is read. */
const MOST_SENT = 64

/** As many rows are inserted at once: a number of its own for each list would be a text for each. */
const AT_ONCE = [64, 8]
/** The end of an insert of one row. */
const ROW = / values (\([?, ]+\))$/

/** Joins inserts of the same text that follow one another: each alone is a trip to the database. */
function* joinInserts(steps: Statement[]): Generator<Statement> {
  for (let at = 0; at < steps.length; ) {
    const count = AT_ONCE.find(size => areAlike(steps, at, size)) ?? 1
    const first = steps[at] as Statement
    yield count === 1 ? first : joinRows(steps.slice(at, at + count) as Prepared[])
    at += count
  }
}

function areAlike(steps: Statement[], at: number, count: number): boolean {
  const first = steps[at]
  if (!(first instanceof Prepared) || !ROW.test(first.sql)) return false
  for (let i = at + 1; i < at + count; i++) {
    const step = steps[i]
    if (!(step instanceof Prepared) || step.sql !== first.sql) return false
  }
  return true
}

function joinRows(inserts: Prepared[]): Prepared {
  const { sql = '' } = inserts[0] ?? {}
  const row = `, ${ROW.exec(sql)?.[1]}`
  return prepare(
    sql + row.repeat(inserts.length - 1),
    ...inserts.flatMap(({ parameters }) => parameters),
  )
}

/** Runs a step of a transaction, and those that its rows ask for. */
export async function runStep(connection: Runner, statement: Statement): Promise<void> {
  if ('later' in statement) return runSteps(connection, statement.later())
  const { sql, parameters } = ('query' in statement ? statement.query : statement).compile()
  const rows = await run(connection, sql, parameters)
  if ('judge' in statement) statement.judge(rows)
  else if ('follow' in statement) await runSteps(connection, statement.follow(rows))
}

/**
 * Does something in a transaction. Where one that was simultaneous has inserted the same row it
 * throws 409, unless it may begin again that often.
 */
const begin = (
  pool: Pool,
  work: (connection: Runner) => Promise<unknown>,
  again = 0,
): Promise<void> =>
  explainFaults(async () => {
    for (let left = again; ; ) {
      try {
        await transact(pool, work)
        return
      } catch (thrown) {
        const code = readCode(thrown)
        if (CONFLICTS.has(code) && left-- <= 0)
          throw conflict('It was changed at the same moment. Please try again.')
        if (code !== DEADLOCK && !CONFLICTS.has(code)) throw thrown
      }
    }
  })
