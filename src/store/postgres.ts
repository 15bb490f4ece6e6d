import type { SQL } from 'bun'
import type { RecordSecrets } from '../limits/seals.ts'
import { FreshCalls } from '../observability/rollups/slice.ts'
import { connect, explainFaults, openKysely, run } from './postgres/connection.ts'
import { createReader, createStepper } from './postgres/reader.ts'
import { anchorRecords, createRecording } from './postgres/recording.ts'
import { createTables } from './postgres/schema.ts'
import { createSealStore, openSeals, readColumns } from './postgres/seals.ts'
import { createWriter, runStep } from './postgres/write.ts'
import { claimOwner, openNouns } from './sql/contents.ts'
import { createInspector } from './sql/inspection.ts'
import { BlockReader } from './sql/outbox/blocks.ts'
import { createVerifier } from './sql/rollups/verify.ts'
import { createRollupStore } from './sql/rollups.ts'
import { createSealer } from './sql/seals/changes.ts'
import type { Store } from './store.ts'

export interface PostgresOptions {
  url: string
  /** The schema of the database that has the tables; `gateway` by default. */
  schema?: string
  connections?: number
  secrets: RecordSecrets
  /** Is told of a call that its destinations are not told, and why. */
  onUntold?: (id: string, error: unknown) => void
}

/** The endpoint that answered, in SQL. */
const ENDPOINT_ID = 'find_endpoint(provider_responses)'

/** Opens a store in Postgres, and makes its tables where there are none. */
export async function openPostgres({
  url,
  schema: name = 'gateway',
  connections = 4,
  secrets,
  onUntold,
}: PostgresOptions): Promise<Store> {
  const pool = connect(url, name, connections)
  let columns: Awaited<ReturnType<typeof readColumns>>
  try {
    columns = await explainFaults(() => prepareSchema(pool, name, secrets))
  } catch (error) {
    await pool.close()
    throw error
  }
  const kysely = openKysely(pool)
  const sealer = createSealer({ kysely, mac: secrets.mac, getColumns: () => columns })
  const writer = createWriter(pool, sealer)
  const { write } = writer
  const seal = secrets.destinationSeal
  const nouns = openNouns(
    {
      ...{ kysely, write, writeDurably: write, writeFreeing: write, keepReserve: () => undefined },
      openReader: createReader(kysely),
      recording: createRecording({ pool, mac: secrets.mac, seal, onUntold }),
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
    ...{ ...stepper, name: nameDatabase(url) },
    ...{ checkStructure: async () => [], prepare: async () => undefined },
  }
  return {
    ...nouns,
    ledger: { ...nouns.ledger, inspect: createInspector(inspected, secrets.mac) },
    rollups: {
      ...createRollupStore({
        ...{ write, fresh: new FreshCalls(), endpointId: ENDPOINT_ID },
        read: (text, values) => explainFaults(() => run(pool, text, values)),
      }),
      verify: createVerifier(stepper, ENDPOINT_ID),
    },
    // The engine keeps its own log short.
    writeLog: { shorten: async () => ({ bytes: 0, isHeld: false }) },
    seals: createSealStore(pool, { kysely, writer, secrets, columns }),
    owner: (candidate: Parameters<typeof claimOwner>[2]) => claimOwner(kysely, write, candidate),
    async version() {
      const [row] = await explainFaults(() => pool.unsafe('select changes from gate'))
      return Number(row.changes) - writer.changes
    },
    close: () => pool.close(),
  }
}

/** Makes the tables where there are none, and returns the columns of those that are sealed. */
const prepareSchema = (pool: SQL, name: string, { mac }: RecordSecrets) =>
  pool.begin(async connection => {
    await connection.unsafe(`create schema if not exists "${name}"`)
    const found = await connection.unsafe('select to_regclass($1) as gate', [`"${name}".gate`])
    if (found[0]?.gate === null) await createTables(connection)
    const opened = await connection.unsafe('select 1 from seal_log limit 1')
    if (opened.length === 0)
      for (const step of openSeals(mac, new Date())) await runStep(connection, step)
    await anchorRecords(connection, mac)
    return readColumns(connection)
  }) as ReturnType<typeof readColumns>

/** Names a database in messages, without who opens it. */
function nameDatabase(url: string): string {
  const { host, pathname } = new URL(url)
  return `${host}${pathname}`
}
