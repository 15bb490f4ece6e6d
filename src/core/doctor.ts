import { listUnreadableByokKeys } from './catalog/byok.ts'
import { listDeadCalls } from './inference/recover.ts'
import type { InferenceWorld } from './inference/world.ts'
import { toDayNumber } from './kernel/clock.ts'
import { toUsd } from './kernel/money.ts'
import { hashLedgerRow, type LedgerHead, type LedgerRow } from './ledger/chain.ts'
import type { DaySpend, HeldCall, LedgerBooks } from './ledger/ledger.ts'

/** The result of one check, with a sentence about what was found. */
export interface Finding {
  check: string
  ok: boolean
  found: string
}

/**
 * Checks everything that money depends on, at one moment, also while a server runs. It verifies the
 * structure of the database and the hash chain of the ledger with its end. It recomputes every
 * counter, and matches every charge with its call and every call with its charge.
 */
export async function examineGateway(world: InferenceWorld): Promise<{ data: Finding[] }> {
  const chain = new ChainReader(world.journal.head.read())
  const before = world.journal.holds.listCalls()
  const books = await world.store.ledger.inspect(row => chain.read(row))
  const dead = await listDeadCalls(world)
  const running = new Set([...before, ...dead].map(({ id }) => id))
  const findings = [checkStructure(books), ...chain.listFindings(books), checkCalls(books, running)]
  return { data: [...findings, describeHolds(dead), checkProviderKeys(world)] }
}

const toFinding = (check: string, problems: string[], okSentence: string): Finding => ({
  check,
  ok: problems.length === 0,
  found: problems.length === 0 ? okSentence : shortenProblems(problems),
})

const MAX_LISTED = 3
const shortenProblems = (problems: string[]) =>
  [
    ...problems.slice(0, MAX_LISTED),
    ...(problems.length > MAX_LISTED ? [`and ${problems.length - MAX_LISTED} more`] : []),
  ].join('; ')

const checkStructure = ({ integrity }: LedgerBooks) =>
  toFinding(
    'store',
    integrity.filter(line => line !== 'ok'),
    'the database is intact',
  )

/** Reads the rows of the ledger once, in order, for all checks. */
class ChainReader {
  readonly #head: LedgerHead | null
  readonly #sums = new Map<string, bigint>()
  readonly #breaks: string[] = []
  #hash = ''
  #last = 0
  #isChained = false
  #meetsHead: boolean

  constructor(head: LedgerHead | null) {
    this.#head = head
    this.#meetsHead = head === null
  }

  read(row: LedgerRow): void {
    const expected = hashLedgerRow(this.#hash, row)
    if (row.hash === null ? this.#isChained : row.hash !== expected)
      this.#breaks.push(`row ${row.seq} (${row.id}) was changed after it was written`)
    if (row.seq !== this.#last + 1)
      this.#breaks.push(`rows are missing between ${this.#last} and ${row.seq}`)
    // A changed row is reported once, and not again at every row after it.
    this.#hash = row.hash ?? expected
    this.#isChained ||= row.hash !== null
    this.#last = row.seq
    this.#meetsHead ||= row.seq === this.#head?.seq && this.#hash === this.#head.hash
    const name = renderCounterName(row, toDayNumber(new Date(row.settled_at)))
    this.#sums.set(name, (this.#sums.get(name) ?? 0n) + row.nanos)
  }

  listFindings({ spend }: LedgerBooks): Finding[] {
    const last = this.#last
    const gap = `rows are missing at the end: ${this.#head?.seq} were written, the last is ${last}`
    const counters =
      spend.length === 1
        ? '1 counter matches its rows'
        : `${spend.length} counters match their rows`
    return [
      toFinding('chain', this.#breaks, `${last} rows, none changed`),
      toFinding('end', this.#meetsHead ? [] : [gap], 'no row is missing at the end'),
      toFinding('counters', listDifferences(this.#sums, spend), counters),
    ]
  }
}

const renderCounterName = ({ key_hash, byok }: Pick<LedgerRow, 'key_hash' | 'byok'>, day: number) =>
  `${key_hash} on day ${day}${byok ? ' (byok)' : ''}`

function listDifferences(sums: Map<string, bigint>, spend: DaySpend[]): string[] {
  const counted = new Map(spend.map(row => [renderCounterName(row, row.day), row.nanos]))
  const wrong = [...new Set([...sums.keys(), ...counted.keys()])].filter(
    name => (sums.get(name) ?? 0n) !== (counted.get(name) ?? 0n),
  )
  return wrong.map(
    name =>
      `key ${name}: counted $${toUsd(counted.get(name) ?? 0n)}, ` +
      `the rows sum to $${toUsd(sums.get(name) ?? 0n)}`,
  )
}

/** A running call is charged for the steps it has taken, and is not recorded yet. */
const checkCalls = ({ unmatched }: LedgerBooks, running: Set<string>) =>
  toFinding(
    'calls',
    unmatched
      .filter(({ id, recorded }) => recorded !== null || !running.has(id))
      .map(
        ({ id, charged, recorded }) =>
          `${id}: charged ${renderAmount(charged)}, recorded ${renderAmount(recorded)}`,
      ),
    'every charge has its call, and every call its charge',
  )

const renderAmount = (nanos: bigint | null) => (nanos === null ? 'not at all' : `$${toUsd(nanos)}`)

const describeHolds = ({ length }: HeldCall[]): Finding =>
  toFinding(
    'holds',
    [],
    length === 0 ? 'no call runs' : `${length} running, or to be settled when the server starts`,
  )

const checkProviderKeys = (world: InferenceWorld) =>
  toFinding(
    'provider keys',
    listUnreadableByokKeys(world).map(
      ({ id, provider }) => `${provider} key ${id} was sealed with another secret`,
    ),
    'all can be decrypted',
  )
