import type { SQL } from 'bun'
import { GatewayError } from '../../base/errors.ts'
import type { Mac } from '../../base/mac.ts'
import type { Seal } from '../../base/seal.ts'
import {
  addParts,
  areTold,
  type EntryRows,
  RECORD_COLUMNS,
  renderAnchor,
  renderRecords,
  toRows,
} from '../sql/generations/rows.ts'
import type { Recording } from '../sql/generations.ts'
import { BlockWriter } from '../sql/outbox/blocks.ts'
import { BundledBatch } from '../sql/outbox/bundling.ts'
import { explainFaults, type Runner, readCode, run } from './connection.ts'
import { runStep } from './write.ts'

/** What recording needs. */
interface RecordingOptions {
  pool: SQL
  mac: Mac
  /** Throws when the secret cannot be read. */
  seal: () => Seal
  /** Is told of a call that its destinations are not told, and why. */
  onUntold?: ((id: string, error: unknown) => void) | undefined
}

/**
 * Creates the recording of calls in Postgres: a batch is one transaction. Throws 409 where the store
 * can never take it, and 503 where it cannot be reached.
 */
export function createRecording({ pool, mac, ...bundling }: RecordingOptions): Recording {
  const options = { ...bundling, spool: null, blocks: new BlockWriter() }
  return {
    async record(batch) {
      try {
        const bundled = areTold(batch) ? new BundledBatch(batch, options) : null
        const entries = batch.map((entry, i) => toRows(entry, bundled?.messages[i]))
        for (const { record } of entries) refuseOthers(record?.values ?? [])
        await explainFaults(() => pool.begin(connection => writeEntries(connection, mac, entries)))
        return bundled?.listWritten() ?? []
      } catch (error) {
        throw isConstraint(error)
          ? new GatewayError('conflict', 'The call cannot be recorded', { cause: error })
          : error
      }
    },
    // What is recorded is in the database, so nothing waits for it.
    keep: async () => [],
    flush: async () => undefined,
    isWaiting: false,
  }
}

// JSON would leave out what is none of these.
function refuseOthers(values: unknown[]): void {
  for (const value of values)
    if (value !== null && typeof value !== 'string' && typeof value !== 'number')
      throw new TypeError('A value fits no column')
}

/** Takes the next numbers of a table: others that want some wait until the transaction ends. */
const TAKE_NUMBERS = `insert into numbers values (?1, ?2)
  on conflict (name) do update set last = numbers.last + excluded.last returning last`

const LIST_ENDED = `select 1 from generations
  where id in (select value from json_each(?)) limit 1`

/** Writes entries. The records of all nodes are numbered, sealed and chained one after the other. */
async function writeEntries(connection: Runner, mac: Mac, entries: EntryRows[]): Promise<void> {
  const records = entries.flatMap(({ record }) => (record ? [record] : []))
  const last = await takeNumbers(connection, 'generations', records.length)
  await refuseEnded(connection, entries)
  if (records.length > 0) {
    const first = last - records.length + 1
    const texts = records.map(({ json }) => json)
    await run(connection, INSERT_RECORDS, [first, `[${texts.join(',')}]`])
    await run(connection, SEAL_RECORDS, [
      ...[first, last, RECORD_COLUMNS.length],
      mac(renderRecords(first, texts)),
    ])
  }
  const messages = entries.reduce((sum, entry) => sum + entry.messages.length, 0)
  const newest = messages === 0 ? 0 : await takeNumbers(connection, 'outbox', messages)
  for (const step of addParts(mac, newest - messages, entries)) await runStep(connection, step)
}

async function takeNumbers(connection: Runner, name: string, count: number): Promise<number> {
  const [row] = await run<{ last: number }>(connection, TAKE_NUMBERS, [name, count])
  return row?.last ?? 0
}

// A step of a call that has a record comes too late.
async function refuseEnded(connection: Runner, entries: EntryRows[]): Promise<void> {
  const ids = entries.flatMap(({ record, charge }) => (!record && charge ? [charge.id] : []))
  if (ids.length === 0) return
  const ended = await run(connection, LIST_ENDED, [JSON.stringify(ids)])
  if (ended.length > 0) throw new TypeError('The call has ended')
}

const NUMBERS = new Set<string>([
  ...['streamed', 'cancelled', 'is_byok', 'total_cost', 'upstream_inference_cost'],
  ...RECORD_COLUMNS.filter(name => name.startsWith('native_tokens')),
])
const FRACTIONS = new Set<string>(['latency', 'generation_time'])

const findType = (name: string): string =>
  NUMBERS.has(name) ? '::bigint' : FRACTIONS.has(name) ? '::double precision' : ''

// One list of JSON for all records: a fifth of what a parameter for each value costs.
const INSERT_RECORDS = `insert into generations
  (rowid, ${RECORD_COLUMNS.map(name => `"${name}"`).join(', ')})
  select ?1::bigint + place - 1,
    ${RECORD_COLUMNS.map((name, i) => `(record->>${i})${findType(name)}`).join(', ')}
  from jsonb_array_elements(?2::text::jsonb) with ordinality as listed (record, place)`

const LAST_UNSEALED = `select coalesce(max(rowid), 0) as last from generations
  having not exists (select 1 from record_seals)`

/** Writes the first seal of records where there is none: which records are from before. */
export async function anchorRecords(connection: Runner, mac: Mac): Promise<void> {
  for (const { last } of await run<{ last: number }>(connection, LAST_UNSEALED))
    await run(connection, SEAL_RECORDS, [0, last, 0, mac(renderAnchor(last))])
}

const SEAL_RECORDS = `insert into record_seals (n, first_row, last_row, columns, seal)
  values ((select coalesce(max(n), 0) + 1 from record_seals), ?, ?, ?, ?)`

// A TypeError means a value that no column accepts. Classes 22 and 23: values, and constraints.
const isConstraint = (error: unknown): boolean =>
  error instanceof TypeError || /^(22|23)/.test(readCode(error))
