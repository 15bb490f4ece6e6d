import type { CompiledQuery } from 'kysely'
import { isObject, isRawJson, type Json, parseObject } from '../../../base/json.ts'
import type { Mac } from '../../../base/mac.ts'
import type { Seal } from '../../../base/seal.ts'
import { type JobDetails, parseDetails, renderDetails } from '../../../extensions/videos/details.ts'
import { digestLedgerRow, hashLedgerRow } from '../../../limits/chain.ts'
import type { RecordSecrets, SealOpening } from '../../../limits/seals.ts'
import { renderAnchor } from '../generations/rows.ts'
import { parseRow, type RawLedgerRow, selectLedger } from '../ledger.ts'
import { SEALED, sealText, tryToOpen } from '../presets/sealing.ts'
import { list, type Query, type Reading } from '../reading.ts'
import {
  add,
  type Column,
  type LogEntry,
  readRows,
  SEALED_TABLES,
  sealRow,
  writeEntry,
} from '../seals.ts'

/*
 * Sealing everything again, step by step in one transaction of its engine: unlike other readings,
 * these write. What is large is taken one row after the other.
 */

/**
 * Encrypts with the current secret all that the previous one has encrypted in the database: then
 * nothing there needs that any more. What neither opens stays as it is.
 */
export function* encryptAgain(current: RecordSecrets, previous: RecordSecrets): Reading<void> {
  for (const column of COLUMNS)
    yield* encryptColumn(column, column.choose(current), column.choose(previous))
  yield* encryptVersions(current.presetSeal, previous.presetSeal)
  yield* encryptVideos(current, previous)
  yield* encryptMessages(current.destinationSeal(), previous.destinationSeal())
}

/**
 * Adds the entry of the audit trail, and seals every row as it stands once more, with an opening
 * that covers the ledger as it stands. Earlier openings no longer count. Records of calls are sealed
 * from then on.
 */
export function* sealAgain(
  mac: Mac,
  columns: Map<string, Column[]>,
  entry: CompiledQuery,
): Reading<void> {
  yield* list(entry.sql, ...(entry.parameters as Query['values']))
  yield* list('delete from seals')
  let sum = 0n
  for (const noun of SEALED_TABLES)
    yield* readRows(noun, columns.get(noun) ?? [], function* (rows) {
      const seals = rows.map(row => sealRow(mac, row))
      const values = rows.flatMap(({ id }, i) => [noun, id, seals[i] ?? ''])
      yield* list(`insert into seals values ${rows.map(() => '(?, ?, ?)').join(', ')}`, ...values)
      sum = seals.reduce((all, seal) => add(all, BigInt(`0x${seal}`)), sum)
    })
  const ledger = yield* readLedgerEnd()
  const opening: SealOpening = { sealed_at: new Date().toISOString(), ledger }
  const [last = { n: 0, seal: '' }] = yield* list<LogEntry>(NEWEST)
  const written = writeEntry(mac, last, sum, JSON.stringify(opening))
  yield* list(written.sql, ...(written.parameters as Query['values']))
  yield* anchorAgain(mac)
}

const NEWEST = 'select * from seal_log order by n desc limit 1'

function* readLedgerEnd(): Reading<Required<SealOpening['ledger']>> {
  const end = { seq: 0, hash: '', digest: '' }
  for (;;) {
    const where = `where seq > ${end.seq}`
    const rows = yield* list<RawLedgerRow>(`${selectLedger(where)} limit ${LEDGER_ROWS}`)
    for (const raw of rows) {
      const row = parseRow(raw)
      end.seq = row.seq
      end.hash = row.hash ?? hashLedgerRow(end.hash, row)
      end.digest = digestLedgerRow(end.digest, row)
    }
    if (rows.length < LEDGER_ROWS) return end
  }
}

const LEDGER_ROWS = 2_000

/** Seals the records from now on: those that are there are from before. */
function* anchorAgain(mac: Mac): Reading<void> {
  yield* list('delete from record_seals')
  const [found] = yield* list<{ last: number }>(
    'select coalesce(max(rowid), 0) as last from generations',
  )
  const last = found?.last ?? 0
  yield* list(
    'insert into record_seals (n, first_row, last_row, columns, seal) values (1, 0, ?, 0, ?)',
    ...[last, mac(renderAnchor(last))],
  )
}

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

/** One row after the other: texts may be large, and many. */
function* encryptColumn(
  { table, column, key }: EncryptedColumn,
  current: Seal,
  previous: Seal,
): Reading<void> {
  const isRow = key.map(name => `${name} = ?`).join(' and ')
  const places = key.map(() => '?').join(', ')
  const select = `select ${key}, ${column} as text from ${table} where ${column} <> ''`
  const order = `order by ${key} limit 1`
  let [row] = yield* list<EncryptedRow>(`${select} ${order}`)
  while (row) {
    const { text, ...rest } = row
    const values = key.map(name => rest[name] ?? '')
    const again = encryptText(String(text), values.join(' '), current, previous)
    if (again !== text)
      yield* list(`update ${table} set ${column} = ? where ${isRow}`, again, ...values)
    ;[row] = yield* list<EncryptedRow>(`${select} and (${key}) > (${places}) ${order}`, ...values)
  }
}

type EncryptedRow = Record<string, string | number>

function encryptText(sealed: string, context: string, current: Seal, previous: Seal): string {
  const text = previous.open(sealed, context)
  return text === undefined ? sealed : current.seal(text, context, createNonce())
}

const createNonce = () => crypto.getRandomValues(new Uint8Array(12))

/** Encrypts the credentials in presets. A text that the previous secret does not open stays. */
function* encryptVersions(current: () => Seal, previous: () => Seal): Reading<void> {
  const rows = yield* list<{ id: string; config: string }>('select id, config from preset_versions')
  for (const { id, config } of rows) {
    if (!config.includes(`"${SEALED}"`)) continue
    const again = encryptValue(parseObject(config) ?? {}, id, { current, previous }) as Json
    yield* list('update preset_versions set config = ? where id = ?', JSON.stringify(again), id)
  }
}

function encryptValue(
  value: unknown,
  id: string,
  seals: Record<'current' | 'previous', () => Seal>,
): unknown {
  if (Array.isArray(value)) return value.map(item => encryptValue(item, id, seals))
  if (!isObject(value) || isRawJson(value)) return value
  const sealed = value[SEALED]
  const text = typeof sealed === 'string' ? tryToOpen(sealed, id, seals.previous) : undefined
  if (text !== undefined) return sealText(text, id, seals.current)
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, encryptValue(member, id, seals)]),
  )
}

/** Encrypts what is kept for the records of calls whose videos are being made. */
function* encryptVideos(current: RecordSecrets, previous: RecordSecrets): Reading<void> {
  const rows = yield* list<{ id: string; generation_id: string; details: string }>(
    "select id, generation_id, details from videos where details <> ''",
  )
  for (const { id, generation_id, details } of rows) {
    if (parseObject(details) === undefined) continue
    const again = encryptDetails(parseDetails(details), generation_id, current, previous)
    yield* list('update videos set details = ? where id = ?', renderDetails(again), id)
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

/**
 * What is not sealed begins with a brace. A bundle has a line for each message. One row after the
 * other: there may be a million.
 */
function* encryptMessages(current: Seal, previous: Seal): Reading<void> {
  let [row] = yield* list<Message>(NEXT_MESSAGE, 0)
  while (row) {
    const { sequence, generation_id, payload } = row
    const ids = generation_id.split('\n')
    const lines = payload.split('\n')
    const again = lines.map((line, i) => encryptMessage(line, ids[i] ?? '', current, previous))
    yield* list('update outbox set payload = ? where sequence = ?', again.join('\n'), sequence)
    ;[row] = yield* list<Message>(NEXT_MESSAGE, sequence)
  }
}

interface Message {
  sequence: number
  generation_id: string
  payload: string
}

const NEXT_MESSAGE = `select sequence, generation_id, payload from outbox where topic = 'trace'
  and sequence > ? and segment is null and (calls > 1 or payload not like '{%')
  order by sequence limit 1`

function encryptMessage(line: string, id: string, current: Seal, previous: Seal): string {
  return line.startsWith('{') ? line : encryptText(line, id, current, previous)
}
