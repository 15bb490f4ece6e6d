import { Database } from 'bun:sqlite'
import { parseObject } from '../../base/json.ts'
import type { Mac } from '../../base/mac.ts'
import type { Seal } from '../../base/seal.ts'
import { VERSION } from '../../base/version.ts'
import { hashLedgerRow } from '../../limits/chain.ts'
import type { RecordSecrets, SealOpening } from '../../limits/seals.ts'
import { parseRow, type RawLedgerRow, selectLedger } from '../sql/ledger.ts'
import { type Content, sealVersion } from '../sql/presets/sealing.ts'
import { FIRST_SEALED, listSealedTables, SEALED_TABLES, type SealedRow } from '../sql/seals.ts'
import { anchorRecords } from './generations/recording.ts'
import first from './migrations/001-first.sql' with { type: 'text' }
import presets from './migrations/002-presets.sql' with { type: 'text' }
import byok from './migrations/003-byok.sql' with { type: 'text' }
import audit from './migrations/004-audit.sql' with { type: 'text' }
import workspaces from './migrations/005-workspaces.sql' with { type: 'text' }
import guardrails from './migrations/006-guardrails.sql' with { type: 'text' }
import scim from './migrations/007-scim.sql' with { type: 'text' }
import contentFilters from './migrations/008-content-filters.sql' with { type: 'text' }
import ledger from './migrations/009-ledger.sql' with { type: 'text' }
import credits from './migrations/010-credits.sql' with { type: 'text' }
import routing from './migrations/011-routing.sql' with { type: 'text' }
import outboxAndSteps from './migrations/012-outbox-steps.sql' with { type: 'text' }
import seals from './migrations/013-seals.sql' with { type: 'text' }
import sealedScim from './migrations/014-sealed-scim.sql' with { type: 'text' }
import generationLists from './migrations/015-generation-lists.sql' with { type: 'text' }
import keyRotation from './migrations/016-key-rotation.sql' with { type: 'text' }
import refusalCounts from './migrations/017-refusal-counts.sql' with { type: 'text' }
import steps from './migrations/018-steps.sql' with { type: 'text' }
import files from './migrations/019-files.sql' with { type: 'text' }
import rollups from './migrations/020-rollups.sql' with { type: 'text' }
import transcripts from './migrations/021-transcripts.sql' with { type: 'text' }
import auth from './migrations/022-auth.sql' with { type: 'text' }
import responseCache from './migrations/023-response-cache.sql' with { type: 'text' }
import idempotency from './migrations/024-idempotency.sql' with { type: 'text' }
import destinations from './migrations/025-destinations.sql' with { type: 'text' }
import containers from './migrations/026-containers.sql' with { type: 'text' }
import batches from './migrations/027-batches.sql' with { type: 'text' }
import videos from './migrations/028-videos.sql' with { type: 'text' }
import videoCallbacks from './migrations/029-video-callbacks.sql' with { type: 'text' }
import leanDeliveries from './migrations/030-deliveries.sql' with { type: 'text' }
import recordSeals from './migrations/031-record-seals.sql' with { type: 'text' }
import bundles from './migrations/032-bundles.sql' with { type: 'text' }
import chargesOnce from './migrations/033-charges-once.sql' with { type: 'text' }
import spool from './migrations/034-spool.sql' with { type: 'text' }
import digests from './migrations/035-digests.sql' with { type: 'text' }
import corrections from './migrations/036-corrections.sql' with { type: 'text' }
import expiry from './migrations/037-expiry.sql' with { type: 'text' }
import emptyFiles from './migrations/038-empty-files.sql' with { type: 'text' }
import responses from './migrations/039-responses.sql' with { type: 'text' }
import log from './migrations/040-log.sql' with { type: 'text' }
import mcpRules from './migrations/041-mcp-rules.sql' with { type: 'text' }
import alerts from './migrations/043-alerts.sql' with { type: 'text' }
import rates from './migrations/044-rates.sql' with { type: 'text' }
import softBudgets from './migrations/045-soft-budgets.sql' with { type: 'text' }
import mcpLogins from './migrations/046-mcp-logins.sql' with { type: 'text' }
import consoleSessions from './migrations/047-console-sessions.sql' with { type: 'text' }
import callBudgets from './migrations/048-call-budgets.sql' with { type: 'text' }
import providerSessions from './migrations/049-provider-sessions.sql' with { type: 'text' }
import feedbackOfUsers from './migrations/050-feedback-of-users.sql' with { type: 'text' }
import changes from './migrations/051-changes.sql' with { type: 'text' }
import schema from './schema.sql' with { type: 'text' }
import { SealLog } from './seals/log.ts'
import { openCreated } from './seals/schema.ts'
import { readRows, readSeals } from './seals/tables.ts'

/** Marks a database as a gateway's in its header: `gate` in ASCII. */
const APPLICATION_ID = 0x67617465

/**
 * Migrates the database to this program's version, in one transaction. Throws when a newer program
 * has written it. The first migration to a version with seals writes their opening; later ones
 * move the seals with the rows.
 */
export function migrate(
  db: Database,
  secrets: RecordSecrets,
  migrations: string[] = MIGRATIONS,
): void {
  refuseNewer(db, migrations)
  if (readVersion(db) < migrations.length)
    db.transaction(() => applyMigrations(db, readVersion(db), secrets, migrations)).immediate()
}

/** Throws for a database that a newer program has written. Changes nothing. */
export function refuseNewer(db: Database, migrations: string[] = MIGRATIONS): void {
  const applied = readVersion(db)
  if (applied > migrations.length)
    throw new Error(
      `This data directory was written by a newer gateway: it has schema ${applied}, and this ` +
        `one (${VERSION}) knows ${migrations.length}`,
    )
}

/** Whether a database has records that migrations would change: a new one has none. */
export function needsMigration(db: Database): boolean {
  const applied = readVersion(db)
  return applied > 0 && applied < MIGRATIONS.length
}

/**
 * Throws for a database that another program than a gateway has written. Those of earlier versions
 * have no mark, but a table of its name. Changes nothing.
 */
export function refuseForeign(db: Database): void {
  const { application_id } = db.query('pragma application_id').get() as { application_id: number }
  const names = db.query<{ name: string }, []>('select name from sqlite_schema').all()
  const isUnmarked = names.length === 0 || names.some(({ name }) => name === 'meta')
  if (application_id !== APPLICATION_ID && !(application_id === 0 && isUnmarked))
    throw new Error('This database was written by another program than a gateway')
}

function applyMigrations(
  db: Database,
  applied: number,
  secrets: RecordSecrets,
  migrations: string[],
): void {
  const runMigrations = () => {
    for (const step of listSteps(applied, migrations)) db.run(step)
  }
  if (applied >= FIRST_SEALED) moveSeals(db, secrets.mac, applied, runMigrations)
  else {
    runMigrations()
    sealStoredVersions(db, secrets.presetSeal)
    writeOpening(db, secrets.mac)
  }
  anchorRecords(db, secrets.mac)
  db.run(`pragma user_version = ${migrations.length}`)
  db.run(`pragma application_id = ${APPLICATION_ID}`)
}

/** Lists what leads from a version to the newest: from nothing, the newest schema does. */
const listSteps = (applied: number, migrations: string[]): string[] =>
  applied === 0 && migrations === MIGRATIONS ? SCHEMA : migrations.slice(applied)

let image: Uint8Array | undefined

/**
 * Opens a database in memory, as `migrate` leaves an empty one. Each but the first is a copy,
 * because the migrations take longer than all else about opening one.
 */
export function openInMemory(secrets: RecordSecrets): Database {
  image ??= createImage()
  const db = Database.deserialize(image, { strict: true })
  writeFirstOpening(db, secrets.mac)
  anchorRecords(db, secrets.mac)
  return db
}

function createImage(): Uint8Array {
  const db = openCreated(SCHEMA)
  db.run(`pragma user_version = ${MIGRATIONS.length}`)
  return db.serialize()
}

/** Makes the tables of this program's version in a new database. */
export function createEmpty(db: Database): void {
  for (const statement of SCHEMA) db.run(statement)
  db.run(`pragma user_version = ${MIGRATIONS.length}`)
  db.run(`pragma application_id = ${APPLICATION_ID}`)
}

/** Reads the schema version of a database: how many migrations have been applied. */
export const readVersion = (db: Database): number =>
  (db.query('pragma user_version').get() as { user_version: number }).user_version

/** Whether the database in a file has the schema of this program. */
export function hasOwnSchema(path: string): boolean {
  const db = new Database(path, { readonly: true })
  try {
    return readVersion(db) === MIGRATIONS.length
  } finally {
    db.close()
  }
}

/**
 * Runs migrations and seals again each row that they change, add or remove, whatever their
 * statements are, so that none can forget it. A row that was not as its seal says before stays so.
 * Tables that had no seals yet are sealed as they stand.
 */
function moveSeals(db: Database, mac: Mac, applied: number, runMigrations: () => void): void {
  const log = new SealLog(db, mac)
  const foreign = new Set<string>()
  for (const noun of listSealedTables(applied))
    for (const id of findForeign(db, log, noun)) foreign.add(buildName(noun, id))
  runMigrations()
  log.move(db, (noun, id) => foreign.has(buildName(noun, id)))
}

/** Finds the rows of a table that are not as their seals say, also where only the seal is left. */
function* findForeign(db: Database, log: SealLog, noun: string): Generator<string> {
  const seals = readSeals(db, noun)
  for (const row of readRows(db, noun)) {
    if (seals.get(row.id) !== log.sealRow(row)) yield row.id
    seals.delete(row.id)
  }
  yield* seals.keys()
}

const buildName = (noun: string, id: string) => `${noun}\0${id}`

/** Seals the versions that an earlier program has stored. */
function sealStoredVersions(db: Database, seal: () => Seal): void {
  for (const row of listVersions(db)) {
    const version = sealVersion({ ...row, config: parseObject(row.config) ?? {} }, seal)
    if (JSON.stringify(version.config) !== row.config) writeVersion(db, version)
  }
}

const listVersions = (db: Database) =>
  db
    .query<Omit<Content, 'config'> & { config: string }, []>(
      'select id, system_prompt, config from preset_versions',
    )
    .all()

const writeVersion = (db: Database, { id, system_prompt, config }: Content): void =>
  void db
    .query('update preset_versions set system_prompt = ?, config = ? where id = ?')
    .run(system_prompt, JSON.stringify(config), id)

/** What all migrations lead to, at once: a new database begins here. */
export const SCHEMA: string[] = [schema]

/**
 * Every migration, in order. A released migration never changes. A database's version is the
 * number of migrations that have been applied.
 */
export const MIGRATIONS: string[] = [
  first, //
  presets,
  byok,
  audit,
  workspaces,
  guardrails,
  scim,
  contentFilters,
  ledger,
  credits,
  routing,
  outboxAndSteps,
  seals,
  sealedScim,
  generationLists,
  keyRotation,
  refusalCounts,
  steps,
  files,
  rollups,
  transcripts,
  auth,
  responseCache,
  idempotency,
  destinations,
  containers,
  batches,
  videos,
  videoCallbacks,
  leanDeliveries,
  recordSeals,
  bundles,
  chargesOnce,
  spool,
  digests,
  corrections,
  expiry,
  emptyFiles,
  responses,
  log,
  mcpRules,
  alerts,
  rates,
  softBudgets,
  mcpLogins,
  consoleSessions,
  callBudgets,
  providerSessions,
  feedbackOfUsers,
  changes,
]

/**
 * Seals every row as it stands for the first time, and writes the opening. It runs in the migration
 * that creates the seals. What was forged before stays unnoticed: the opening says since when rows
 * are sealed.
 */
function writeOpening(db: Database, mac: Mac): void {
  const opening = { sealed_at: new Date().toISOString(), ledger: readLedgerEnd(db) }
  new SealLog(db, mac).open(readSealedRows(db), opening)
}

/** Writes the opening of a database that is known to have no rows. */
function writeFirstOpening(db: Database, mac: Mac): void {
  const opening = { sealed_at: new Date().toISOString(), ledger: { seq: 0, hash: '' } }
  new SealLog(db, mac).open([], opening)
}

function* readSealedRows(db: Database): Generator<SealedRow> {
  for (const noun of listFilledTables(db)) yield* readRows(db, noun)
}

/** Lists the sealed tables that have rows: of a new database they are asked about all at once. */
function listFilledTables(db: Database): string[] {
  const names = db.query<{ name: string }, []>('select name from main.sqlite_schema').all()
  const there = new Set(names.map(({ name }) => name))
  // A database that is not migrated to the end lacks the newest ones.
  const asked = SEALED_TABLES.filter(table => there.has(table)).map(
    table => `select '${table}' as noun where exists (select 1 from main.${table})`,
  )
  return db
    .query<{ noun: string }, []>(asked.join(' union all '))
    .all()
    .map(({ noun }) => noun)
}

function readLedgerEnd(db: Database): SealOpening['ledger'] {
  const end = { seq: 0, hash: '' }
  for (const raw of db.query<RawLedgerRow, []>(selectLedger()).iterate()) {
    const row = parseRow(raw)
    end.seq = row.seq
    end.hash = row.hash ?? hashLedgerRow(end.hash, row)
  }
  return end
}
