import { join } from 'node:path'
import { openMac } from '../../src/base/mac.ts'
import { readDataFile } from '../../src/store/data-files.ts'
import { guardMigration } from '../../src/store/migration-guard.ts'
import { openSqlite } from '../../src/store/sqlite.ts'
import { TEST_SECRETS } from './ledger.ts'

/* Migrates a data directory, and kills itself at the nth seal that the migration writes. */
const [data = '', count = '1'] = process.argv.slice(2)
const mac = openMac(readDataFile(join(data, 'secret.key')) ?? Buffer.alloc(0), 'records')
let left = Number(count)
const seal = (text: string): string => {
  if (--left <= 0) process.kill(process.pid, 'SIGKILL')
  return mac(text)
}
await openSqlite({
  path: join(data, 'gateway.db'),
  durability: 'normal',
  busyTimeout: 0,
  secrets: { ...TEST_SECRETS, mac: seal },
  guardMigration: guardMigration(data, {
    ...{ isLocked: false, patience: 0 },
    seal: TEST_SECRETS.destinationSeal,
  }),
})
