import { expect, test } from 'bun:test'
import { openPostgres } from '../../../../src/store/postgres.ts'
import type { Store } from '../../../../src/store/store.ts'
import { ignoreRefusal, listOperations } from '../../../support/administration.ts'
import { testGateway } from '../../../support/gateway.ts'
import { TEST_SECRETS } from '../../../support/ledger.ts'
import { hasPostgres, startPostgres } from '../../../support/postgres.ts'
import { createSeededIntegers, LONG, SEED } from '../../../support/random.ts'

const ENGINES: [string, () => Promise<{ store?: Store; end: () => PromiseLike<unknown> }>][] = [
  ['SQLite', async () => ({ end: async () => undefined })],
]
if (await hasPostgres())
  ENGINES.push([
    'Postgres',
    async () => {
      const server = await startPostgres()
      const store = await openPostgres({ url: server.url, secrets: TEST_SECRETS })
      const end = () => server[Symbol.asyncDispose]()
      return { store: store as unknown as Store, end }
    },
  ])

test.each(ENGINES)(
  `all that administrators change is sealed, one by one and at once: %s (seed ${SEED})`,
  async (_, open) => {
    const { end, ...parts } = await open()
    const gateway = await testGateway(parts)
    const draw = createSeededIntegers(SEED)
    const operations = listOperations(gateway, draw)
    const done = new Set<unknown>()
    const runOne = async () => {
      const run = operations[draw(operations.length)]
      await run?.().then(() => done.add(run), ignoreRefusal)
    }
    for (let i = 0; i < (LONG ? 1_000 : 30); i++) {
      await Promise.all(Array.from({ length: i % 2 === 0 ? 1 : 20 }, runOne))
      if (i % 10 === 9)
        expect(await gateway.store.seals.inspect()).toMatchObject({
          audit: [],
          rules: [],
          seals: [],
        })
    }
    expect(done.size).toBeGreaterThan(operations.length / 2)
    await gateway.close()
    await end()
  },
)
