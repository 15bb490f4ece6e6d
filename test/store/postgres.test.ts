import { afterAll, describe, test } from 'bun:test'
import { openPostgres } from '../../src/store/postgres.ts'
import type { Store } from '../../src/store/store.ts'
import { testStore } from '../suites/store.ts'
import { TEST_SECRETS } from '../support/ledger.ts'
import { hasPostgres, startPostgres } from '../support/postgres.ts'

if (await hasPostgres()) {
  const server = await startPostgres()
  afterAll(() => server[Symbol.asyncDispose]())
  const open = async () =>
    (await openPostgres({ url: server.url, secrets: TEST_SECRETS })) as unknown as Store
  testStore(
    'Postgres',
    async () => {
      await server.empty()
      return open()
    },
    async () => {
      await server.empty()
      return [await open(), await open()]
    },
  )
} else
  describe('store: Postgres', () => {
    test.skip('is not installed, and cannot be', () => undefined)
  })
