import type { Mac } from '../../../base/mac.ts'
import type { SealReport } from '../../../limits/seals.ts'
import { renderAnchor } from '../generations/rows.ts'
import { list, type Reading } from '../reading.ts'
import {
  add,
  type Column,
  isGenuine,
  type LogEntry,
  readRows,
  renderSum,
  SEALED_TABLES,
  sealRow,
} from '../seals.ts'

/** What the seals of a store show, without the schema, which each engine compares by itself. */
export type Found = Omit<SealReport, 'schema'>

/** Verifies the seal of every row, that none is missing, and that the log ends with all of them. */
export function* inspectSeals(mac: Mac, columns: Map<string, Column[]>): Reading<Found> {
  const found: Found = { audit: [], rules: [], seals: [] }
  let sum = 0n
  for (const noun of SEALED_TABLES) {
    const { problems, own } = yield* compareRows(mac, noun, columns.get(noun) ?? [])
    ;(noun === 'audit' ? found.audit : found.rules).push(...problems)
    sum = add(sum, own)
  }
  const isIntact = found.audit.length + found.rules.length === 0
  found.seals = yield* inspectLog(mac, isIntact ? renderSum(sum) : null)
  return found
}

/** Compares every row of a table with its seal. Returns the sum of those that are genuine. */
function* compareRows(
  mac: Mac,
  noun: string,
  columns: Column[],
): Reading<{ problems: string[]; own: bigint }> {
  const sealed = yield* list<{ id: string; seal: string }>(LIST_SEALS, noun)
  const seals = new Map(sealed.map(({ id, seal }) => [id, seal]))
  const problems: string[] = []
  let own = 0n
  yield* readRows(noun, columns, rows => {
    for (const row of rows) {
      const seal = seals.get(row.id)
      seals.delete(row.id)
      if (seal === sealRow(mac, row)) own = add(own, BigInt(`0x${seal}`))
      else problems.push(`${noun} ${row.id} was ${seal ? 'changed' : 'added'} by another program`)
    }
  })
  for (const id of seals.keys()) problems.push(`${noun} ${id} was removed`)
  return { problems, own }
}

/** Verifies the log of seals from its newest opening on. It ends with this sum, if any is given. */
function* inspectLog(mac: Mac, sum: string | null): Reading<string[]> {
  const [opening] = yield* list<LogEntry>(NEWEST_OPENING)
  const first = opening?.n ?? 0
  let [previous] = yield* list<LogEntry>(FIND, first - 1)
  const forged: string[] = []
  let isEndGenuine = false
  for (let last = first - 1, isOver = false; !isOver; ) {
    const entries = yield* list<LogEntry>(LIST_ENTRIES, last)
    for (const entry of entries) {
      isEndGenuine = isGenuine(mac, previous?.seal ?? '', entry)
      if (!isEndGenuine) forged.push(`entry ${entry.n} of the log of seals was changed`)
      previous = entry
      last = entry.n
    }
    isOver = entries.length === 0
  }
  const isOpened = opening && !forged.includes(`entry ${first} of the log of seals was changed`)
  const stray = yield* list<{ noun: string }>(LIST_STRAY, JSON.stringify(SEALED_TABLES))
  const isClosed = sum === null || (isEndGenuine && previous?.sum === sum)
  return [
    ...(isOpened ? forged : ['the opening is missing, or was made with another secret']),
    ...stray.map(({ noun }) => `seals of ${noun} were added by another program`),
    ...(isClosed ? [] : ['rows were removed together with their seals']),
  ]
}

const LIST_SEALS = 'select id, seal from seals where noun = ?'
const NEWEST_OPENING = 'select * from seal_log where opening is not null order by n desc limit 1'
const FIND = 'select * from seal_log where n = ?'
const LIST_ENTRIES = 'select * from seal_log where n > ? order by n limit 1000'
const LIST_STRAY = `select distinct noun from seals
  where noun not in (select value from json_each(?)) order by noun`

/**
 * Whether the owner of this secret has sealed the store. One seal that is altered is for `doctor` to
 * tell: records have a seal of their own that says where they begin.
 */
export function* isSealedWith(mac: Mac): Reading<boolean> {
  const [opening] = yield* list<LogEntry>(NEWEST_OPENING)
  const [before] = yield* list<LogEntry>(FIND, (opening?.n ?? 0) - 1)
  if (opening && isGenuine(mac, before?.seal ?? '', opening)) return true
  const [anchor] = yield* list<{ last_row: number; seal: string }>(FIND_ANCHOR)
  return anchor !== undefined && anchor.seal === mac(renderAnchor(anchor.last_row))
}

const FIND_ANCHOR = 'select last_row, seal from record_seals where columns = 0 order by n limit 1'
