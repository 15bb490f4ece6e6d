import type { Mac } from '../../../base/mac.ts'
import type { SealHead } from '../../../limits/seals.ts'
import { follow, type Prepared, prepare, type Statement } from '../write.ts'
import type { RowChange, SealedRow } from './tables.ts'

/*
 * The seals of single rows, and the log that seals them together. The sum of all seals says which
 * rows there are: without the key it is impossible to remove a row together with its seal, or to
 * put back an earlier one.
 */

/** An entry of the log as it is stored. */
export interface LogEntry extends SealHead {
  sum: string
  opening: string | null
}

const FIND_SEAL = 'select seal from seals where noun = ? and id = ?'
const REMOVE_SEAL = 'delete from seals where noun = ? and id = ?'
const WRITE_SEAL = `insert into seals (noun, id, seal) values (?, ?, ?)
  on conflict (noun, id) do update set seal = excluded.seal`
const LIST_NEWEST = 'select * from seal_log order by n desc limit 2'
const INSERT_ENTRY = 'insert into seal_log (n, sum, seal, opening) values (?, ?, ?, ?)'

/** Computes the seal of a row. */
export const sealRow = (mac: Mac, { noun, id, text }: SealedRow): string =>
  mac(`${noun}\0${id}\0${text}`)

/**
 * Seals the rows that have changed. A row that was not as its seal says before the change keeps
 * its old seal, and a log whose end is not genuine is not continued: both stay visible.
 */
export function appendSeals(mac: Mac, changes: RowChange[]): Statement[] {
  if (changes.length === 0) return []
  let sum = 0n
  return [
    ...changes.map(change =>
      replaceSeal(mac, change, moved => {
        sum = add(sum, moved)
      }),
    ),
    { later: () => continueLog(mac, sum) },
  ]
}

/** Moves the seal of a row, and tells what that adds to the sum. One that differs is left as it is. */
export const replaceSeal = (
  mac: Mac,
  { noun, id, before, after }: RowChange,
  onMoved: (change: bigint) => void,
): Statement =>
  follow<{ seal: string }>(prepare(FIND_SEAL, noun, id), ([found]) => {
    const expected = before === null ? null : sealRow(mac, { noun, id, text: before })
    if ((found?.seal ?? null) !== expected) return []
    const seal = after === null ? null : sealRow(mac, { noun, id, text: after })
    onMoved(toNumber(seal) - toNumber(expected))
    if (seal !== null) return [prepare(WRITE_SEAL, noun, id, seal)]
    return expected === null ? [] : [prepare(REMOVE_SEAL, noun, id)]
  })

/** Moves the sum of the log, if its newest entry is genuine. */
export const continueLog = (mac: Mac, change: bigint): Statement[] => [
  follow<LogEntry>(prepare(LIST_NEWEST), ([last, before]) =>
    last && isGenuine(mac, before?.n === last.n - 1 ? before.seal : '', last)
      ? [writeEntry(mac, last, add(BigInt(`0x${last.sum}`), change), null)]
      : [],
  ),
]

/** Writes the entry after another. */
export function writeEntry(
  mac: Mac,
  previous: SealHead,
  sum: bigint,
  opening: string | null,
): Prepared {
  const entry = { n: previous.n + 1, sum: renderSum(sum), opening }
  return prepare(INSERT_ENTRY, entry.n, entry.sum, sealEntry(mac, previous.seal, entry), opening)
}

/** Whether an entry was sealed by the owner of the secret, after the one with this seal. */
export const isGenuine = (mac: Mac, previous: string, entry: LogEntry): boolean =>
  entry.seal === sealEntry(mac, previous, entry)

export const sealEntry = (
  mac: Mac,
  previous: string,
  { n, sum, opening }: Omit<LogEntry, 'seal'>,
): string => mac(JSON.stringify([previous, n, sum, opening]))

export const toNumber = (seal: string | null): bigint => (seal === null ? 0n : BigInt(`0x${seal}`))

/** Adds a seal to the sum of all. */
export const add = (sum: bigint, number: bigint): bigint => BigInt.asUintN(256, sum + number)

export const renderSum = (sum: bigint): string =>
  BigInt.asUintN(256, sum).toString(16).padStart(64, '0')
