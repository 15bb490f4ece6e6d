import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { Mac } from '../../base/mac.ts'
import type { Seal } from '../../base/seal.ts'
import { type JobDetails, parseDetails, renderDetails } from '../../extensions/videos/details.ts'
import type { RecordSecrets, SealReport, SealStore } from '../../limits/seals.ts'
import type { Spool } from '../spool.ts'
import { buildEntryInsert } from '../sql/audit.ts'
import { BlockReader } from '../sql/outbox/blocks.ts'
import type { BundleRow } from '../sql/outbox/bundles.ts'
import { add } from '../sql/seals/log.ts'
import { isUnproven, SEALED_TABLES } from '../sql/seals/tables.ts'
import type { Tables } from '../sql/tables.ts'
import { type Messages, moveIntoRow, renderPayload } from './outbox/messages.ts'
import { resealVersions } from './presets.ts'
import { compareRows } from './seals/compare.ts'
import { SealLog } from './seals/log.ts'
import { writeNewOpening } from './seals/opening.ts'
import { compareSchemas } from './seals/schema.ts'

/** What the store of seals works with. */
interface SealParts {
  secrets: RecordSecrets
  messages: Messages
  /** What creates the schema that the database has to have. */
  schema: string[]
}

/** Creates the store of seals in SQL. */
export function createSealStore(
  kysely: Kysely<Tables>,
  db: Database,
  { secrets, messages, schema }: SealParts,
): SealStore {
  const log = new SealLog(db, secrets.mac)
  return {
    ...createSealReader(db, secrets.mac, schema),
    readHead: async () => log.readHead(),
    has: async head => log.has(head),
    listUnsealed: async () => listUnsealed(db),
    under: mac => createSealReader(db, mac, schema),
    reseal: async (entry, previous) =>
      db
        .transaction(() => {
          if (previous) encryptAgain(db, secrets, previous, messages.spool)
          const { sql, parameters } = buildEntryInsert(kysely, entry).compile()
          db.query(sql).run(...(parameters as never[]))
          writeNewOpening(db, secrets.mac)
        })
        .immediate(),
  }
}

function createSealReader(
  db: Database,
  mac: Mac,
  schema: string[],
): Pick<SealStore, 'readOpening' | 'inspect'> {
  const log = new SealLog(db, mac)
  return {
    readOpening: async () => log.readOpening(),
    inspect: async () =>
      db.transaction(() => ({
        schema: compareSchemas(db, schema),
        ...inspectRows(db, log),
      }))(),
  }
}

/** Verifies the seal of every row, that none is missing, and that the log ends with all of them. */
export function inspectRows(db: Database, log: SealLog): Omit<SealReport, 'schema'> {
  const report: Omit<SealReport, 'schema'> = { audit: [], rules: [], seals: [] }
  let sum = 0n
  for (const noun of SEALED_TABLES) {
    const problems = noun === 'audit' ? report.audit : report.rules
    for (const { id, state, seal } of compareRows(db, log, noun)) {
      if (state === 'genuine') sum = add(sum, BigInt(`0x${seal}`))
      else if (state === 'removed') problems.push(`${noun} ${id} was removed`)
      else problems.push(`${noun} ${id} was ${state} by another program`)
    }
  }
  const isIntact = report.audit.length + report.rules.length === 0
  report.seals = [
    ...(log.readOpening()
      ? log.listForged().map(n => `entry ${n} of the log of seals was changed`)
      : ['the opening is missing, or was made with another secret']),
    ...listStraySeals(db),
    ...(isIntact && !log.isClosedWith(sum) ? ['rows were removed together with their seals'] : []),
  ]
  return report
}

/** Lists the tables whose rows nothing proves. */
const listUnsealed = (db: Database): string[] =>
  db
    .query<{ name: string }, []>(
      "select name from sqlite_schema where type = 'table' order by name",
    )
    .all()
    .map(({ name }) => name)
    .filter(isUnproven)

const listStraySeals = (db: Database): string[] =>
  db
    .query<{ noun: string }, [string]>(
      'select distinct noun from seals where noun not in (select value from json_each(?))',
    )
    .all(JSON.stringify(SEALED_TABLES))
    .map(({ noun }) => `seals of ${noun} were added by another program`)

/** A column whose texts are encrypted each by itself, for the key of its row. */
interface EncryptedColumn {
  table: string
  column: string
  /** The columns of the key, in the order in which they are the context. */
  key: string[]
  choose(secrets: RecordSecrets): Seal
}

const chooseContent = (secrets: RecordSecrets) => secrets.contentSeal()
const chooseDestination = (secrets: RecordSecrets) => secrets.destinationSeal()

const COLUMNS: EncryptedColumn[] = [
  { table: 'byok', column: 'sealed', key: ['id'], choose: secrets => secrets.seal() },
  { table: 'transcripts', column: 'sealed', key: ['generation_id'], choose: chooseContent },
  {
    table: 'responses',
    column: 'sealed',
    key: ['id', 'workspace_id', 'key_hash'],
    choose: chooseContent,
  },
  { table: 'batch_results', column: 'sealed', key: ['batch_id', 'line'], choose: chooseContent },
  { table: 'idempotency', column: 'sealed', key: ['name'], choose: chooseContent },
  { table: 'destinations', column: 'sealed', key: ['id'], choose: chooseDestination },
  { table: 'alerts', column: 'sealed', key: ['id'], choose: chooseDestination },
  { table: 'mcp_logins', column: 'sealed', key: ['label'], choose: chooseDestination },
  { table: 'videos', column: 'callback_url', key: ['id'], choose: chooseDestination },
]

/**
 * Encrypts with the current secret all that the previous one has encrypted: then nothing needs that
 * any more. What neither opens stays as it is. It belongs in a transaction.
 */
export function encryptAgain(
  db: Database,
  current: RecordSecrets,
  previous: RecordSecrets,
  spool: Spool | null = null,
): void {
  const seals = [current.destinationSeal(), previous.destinationSeal()] as const
  for (const column of COLUMNS)
    encryptColumn(db, column, column.choose(current), column.choose(previous))
  resealVersions(db, current.presetSeal, previous.presetSeal)
  encryptVideos(db, current, previous)
  encryptMessages(db, ...seals)
  encryptSpooled(db, ...seals, spool)
}

/** Moves what the previous secret has encrypted in the spool into the database. */
function encryptSpooled(db: Database, current: Seal, previous: Seal, spool: Spool | null): void {
  const reader = new BlockReader(spool, () => previous)
  const next = db.query<BundleRow, [number]>(
    'select * from outbox where segment is not null and sequence > ? order by sequence limit 1',
  )
  for (let row = next.get(0); row; row = next.get(row.sequence)) {
    const payload = renderPayload(row, reader, current)
    if (payload !== null) moveIntoRow(db, row.sequence, payload)
  }
}

/**
 * What is not sealed begins with a brace. A bundle has a line for each message. One row after the
 * other: there may be a million.
 */
function encryptMessages(db: Database, current: Seal, previous: Seal): void {
  const next = db.query<{ sequence: number; generation_id: string; payload: string }, [number]>(
    "select sequence, generation_id, payload from outbox where topic = 'trace' " +
      "and sequence > ? and segment is null and (calls > 1 or payload not like '{%') order by sequence limit 1",
  )
  const update = db.query('update outbox set payload = ? where sequence = ?')
  for (let row = next.get(0); row; row = next.get(row.sequence)) {
    const ids = row.generation_id.split('\n')
    const lines = row.payload.split('\n')
    const payload = lines.map((line, i) => encryptMessage(line, ids[i] ?? '', current, previous))
    update.run(payload.join('\n'), row.sequence)
  }
}

function encryptMessage(line: string, id: string, current: Seal, previous: Seal): string {
  return line.startsWith('{') ? line : encryptText(line, id, current, previous)
}

/** Encrypts what is kept for the records of calls whose videos are being made. */
function encryptVideos(db: Database, current: RecordSecrets, previous: RecordSecrets): void {
  const rows = db
    .query<{ id: string; generation_id: string; details: string }, []>(
      "select id, generation_id, details from videos where details <> '' and json_valid(details)",
    )
    .all()
  const update = db.query('update videos set details = ? where id = ?')
  for (const { id, generation_id, details } of rows) {
    const again = encryptDetails(parseDetails(details), generation_id, current, previous)
    update.run(renderDetails(again), id)
  }
}

function encryptDetails(
  { transcript, outbox, ...others }: JobDetails,
  id: string,
  current: RecordSecrets,
  previous: RecordSecrets,
): JobDetails {
  const contents = [current.contentSeal(), previous.contentSeal()] as const
  const messages = [current.destinationSeal(), previous.destinationSeal()] as const
  return {
    ...others,
    transcript: transcript && {
      ...transcript,
      sealed: encryptText(transcript.sealed, id, ...contents),
    },
    outbox: outbox.map(message => ({
      ...message,
      payload: encryptMessage(message.payload, id, ...messages),
    })),
  }
}

/** One row after the other: texts may be large, and many. */
function encryptColumn(
  db: Database,
  { table, column, key }: EncryptedColumn,
  current: Seal,
  previous: Seal,
): void {
  const isRow = key.map(name => `${name} = ?`).join(' and ')
  const keys = db.query(`select ${key} from ${table} where ${column} <> ''`).values() as Key[]
  const find = db.query<{ text: string }, Key>(
    `select ${column} as text from ${table} where ${isRow}`,
  )
  const update = db.query(`update ${table} set ${column} = ? where ${isRow}`)
  for (const values of keys) {
    const text = find.get(...values)?.text ?? ''
    const again = encryptText(text, values.join(' '), current, previous)
    if (again !== text) update.run(again, ...values)
  }
}

type Key = (string | number)[]

function encryptText(sealed: string, context: string, current: Seal, previous: Seal): string {
  const text = previous.open(sealed, context)
  return text === undefined ? sealed : current.seal(text, context, createNonce())
}

const createNonce = () => crypto.getRandomValues(new Uint8Array(12))
