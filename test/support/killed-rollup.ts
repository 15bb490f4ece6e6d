/**
 * A process that is killed in the middle of a roll-up, as the kernel would: after so many slices, or
 * within the transaction of the next one. `bun killed-rollup.ts DATABASE SLICES within|after`.
 */
import { Database } from 'bun:sqlite'
import { openSqlite } from '../../src/store/sqlite.ts'
import { TEST_SECRETS } from './ledger.ts'

const [path = '', slices = '0', when] = process.argv.slice(2)
const store = await openSqlite({
  path,
  durability: 'normal',
  busyTimeout: 0,
  secrets: TEST_SECRETS,
})
for (let i = 0; i < Number(slices); i++) await store.rollups.advance(7)
if (when === 'within') {
  const { prototype } = Database
  const query = prototype.query
  // The cursor is written last, when all sums of the slice are.
  prototype.query = function (this: Database, sql: string) {
    if (sql.startsWith('insert into rollup_cursor')) process.kill(process.pid, 'SIGKILL')
    return query.call(this, sql)
  } as typeof query
  await store.rollups.advance(7)
}
process.kill(process.pid, 'SIGKILL')
