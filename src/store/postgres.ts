import { describeDatabase } from '../config/storage.ts'
import type { RecordSecrets } from '../limits/seals.ts'
import { FreshCalls } from '../observability/rollups.ts'
import type { GivenSecret } from './own-secret.ts'
import {
  answerWithin,
  connect,
  createLanes,
  explainFaults,
  openKysely,
  PATIENCE,
  run,
} from './postgres/connection.ts'
import { openSharedCounts } from './postgres/counts.ts'
import { inspectLeases, LOCK_LEDGER } from './postgres/leases.ts'
import { createNodeStore } from './postgres/nodes.ts'
import { openSchema } from './postgres/opening.ts'
import { createReader, createStepper } from './postgres/reader.ts'
import { PostgresRecording } from './postgres/recording.ts'
import { createSealStore, type readColumns } from './postgres/seals.ts'
import { createSharedStore } from './postgres/shared.ts'
import { createWriter, runSteps } from './postgres/write.ts'
import type { RecordLog } from './record-log.ts'
import { buildAuditInsert } from './sql/audit.ts'
import { ChangeFeed } from './sql/changes.ts'
import { claimOwner, openNouns } from './sql/contents.ts'
import { createIdempotencyStore } from './sql/idempotency.ts'
import { createInspector } from './sql/inspection.ts'
import { BlockReader } from './sql/outbox/blocks.ts'
import { createVerifier } from './sql/rollups/verify.ts'
import { createRollupStore } from './sql/rollups.ts'
import { createSealer } from './sql/seals.ts'
import type { Store } from './store.ts'

export interface PostgresOptions {
  url: string
  connections?: number
  secrets: RecordSecrets
  /** The secret that has to be that of the data. Without it, any may be. */
  ownSecret?: GivenSecret | undefined
  /** Where records are kept while the database is away. Without it, they are not. */
  recordLog?: RecordLog | undefined
  /** The id of this node, where it has served before: what it has kept was paid from its leases. */
  node?: string | undefined
  /** Is told how many lines of what a dead process has left are not as they were written. */
  onGarbled?: (lines: number) => void
  /** Throws where the store may not be made, as there is none yet. */
  refuseNew?: () => void
  /** Is told of a call that its destinations are not told, and why. */
  onUntold?: (id: string, error: unknown) => void
}

/** The endpoint that answered, in SQL. */
const ENDPOINT_ID = 'find_endpoint(provider_responses)'

/**
 * Opens a store in Postgres, and makes its tables where there are none. Throws 400 for a database
 * that cannot have them, 409 for what is there of something else, of a newer program or under
 * another secret, and 503 where it cannot be reached.
 */
export async function openPostgres({
  url,
  connections = 4,
  secrets,
  recordLog,
  node = '',
  onUntold,
  onGarbled,
  ...given
}: PostgresOptions): Promise<Store> {
  const pool = connect(url, connections)
  const seal = secrets.destinationSeal
  const self = { node }
  const recording = new PostgresRecording({
    ...{ pool, mac: secrets.mac, seal, onUntold, node: () => self.node },
    log: recordLog,
  })
  let columns: Awaited<ReturnType<typeof readColumns>>
  let feed: ChangeFeed
  try {
    columns = await openSchema(pool, { secrets, place: describeDatabase(url), ...given })
    onGarbled?.(await recording.restore())
    feed = await ChangeFeed.open((text, places) =>
      answerWithin(PATIENCE.version, () => run(pool, text, places)),
    )
  } catch (error) {
    await pool.close()
    throw error
  }
  const lanes = createLanes(connections)
  const kysely = openKysely(pool, lanes.read)
  const sealer = createSealer({ kysely, mac: secrets.mac, getColumns: () => columns })
  const name = crypto.randomUUID()
  const writer = createWriter(pool, { seal: sealer, feed, name, lane: lanes.write })
  const { write, writeQuietly } = writer
  const nouns = openNouns(
    {
      ...{ kysely, write, writeQuietly, writeDurably: write, writeFreeing: write },
      keepReserve: () => undefined,
      openReader: createReader(kysely),
      ...{ recording, lockLedger: [LOCK_LEDGER] },
      messages: {
        openReader: () => new BlockReader(null, seal),
        renderPayload: row => row.payload,
        sweep: () => undefined,
        inspect: () => ({ messages: 0, problems: [], unneeded: 0 }),
      },
    },
    secrets,
  )
  const stepper = createStepper(pool)
  const inspected = {
    ...{ ...stepper, name: describeDatabase(url) },
    ...{
      checkStructure: () => explainFaults(() => inspectLeases(pool)),
      prepare: async () => undefined,
    },
  }
  return {
    ...nouns,
    idempotency: createIdempotencyStore(kysely, writer.writeAlone),
    ledger: { ...nouns.ledger, inspect: createInspector(inspected, secrets.mac) },
    rollups: {
      ...createRollupStore({
        ...{ write: writeQuietly, fresh: new FreshCalls(), endpointId: ENDPOINT_ID },
        read: (text, values) =>
          answerWithin(PATIENCE.read, () => lanes.report(() => run(pool, text, values))),
      }),
      verify: createVerifier(stepper, ENDPOINT_ID),
    },
    // The engine keeps its own log short.
    writeLog: { shorten: async () => ({ bytes: 0, isHeld: false }) },
    seals: createSealStore(pool, { kysely, writer, secrets, columns }),
    owner: (candidate: Parameters<typeof claimOwner>[2]) => claimOwner(kysely, write, candidate),
    async version() {
      const [row] = await answerWithin(PATIENCE.version, () =>
        pool.unsafe('select changes from gate'),
      )
      return Number(row.changes) - writer.changes
    },
    changes: { read: () => feed.read() },
    nodes: createNodeStore(pool, self, {
      transact: writer.transact,
      append: (connection, entry) =>
        runSteps(connection, sealer([buildAuditInsert(kysely, entry)])),
    }),
    shared: createSharedStore(pool, name),
    openCounts: (incarnation, ticks, pools) =>
      openSharedCounts({ connect: () => connect(url, 1), incarnation, ticks, pools }),
    async close() {
      await recordLog?.settle()
      await pool.close()
    },
  }
}
