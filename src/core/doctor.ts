import { unreadableKeys } from './catalog/byok.ts'
import { deadCalls } from './inference/recover.ts'
import type { InferenceWorld } from './inference/world.ts'
import { dayOf } from './kernel/clock.ts'
import { usdOf } from './kernel/money.ts'
import { chained, type LedgerHead, type LedgerRow } from './ledger/chain.ts'
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
export async function examine(gateway: InferenceWorld): Promise<{ data: Finding[] }> {
  const chain = new ChainReading(gateway.journal.head.read())
  const before = gateway.journal.holds.left()
  const books = await gateway.store.ledger.inspect(row => chain.read(row))
  const dead = await deadCalls(gateway)
  const running = new Set([...before, ...dead].map(({ id }) => id))
  const found = [structure(books), ...chain.findings(books), calls(books, running)]
  return { data: [...found, holds(dead), providerKeys(gateway)] }
}

const finding = (check: string, faults: string[], fine: string): Finding => ({
  check,
  ok: faults.length === 0,
  found: faults.length === 0 ? fine : shortened(faults),
})

const MOST_TOLD = 3
const shortened = (faults: string[]) =>
  [
    ...faults.slice(0, MOST_TOLD),
    ...(faults.length > MOST_TOLD ? [`and ${faults.length - MOST_TOLD} more`] : []),
  ].join('; ')

const structure = ({ integrity }: LedgerBooks) =>
  finding(
    'store',
    integrity.filter(line => line !== 'ok'),
    'the database is intact',
  )

/** Reads the rows of the ledger once, in order, for all checks. */
class ChainReading {
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
    const expected = chained(this.#hash, row)
    if (row.hash === null ? this.#isChained : row.hash !== expected)
      this.#breaks.push(`row ${row.seq} (${row.id}) was changed after it was written`)
    if (row.seq !== this.#last + 1)
      this.#breaks.push(`rows are missing between ${this.#last} and ${row.seq}`)
    // A changed row is reported once, and not again at every row after it.
    this.#hash = row.hash ?? expected
    this.#isChained ||= row.hash !== null
    this.#last = row.seq
    this.#meetsHead ||= row.seq === this.#head?.seq && this.#hash === this.#head.hash
    const name = nameOf(row, dayOf(new Date(row.settled_at)))
    this.#sums.set(name, (this.#sums.get(name) ?? 0n) + row.nanos)
  }

  findings({ spend }: LedgerBooks): Finding[] {
    const last = this.#last
    const cut = `rows are missing at the end: ${this.#head?.seq} were written, the last is ${last}`
    const counters =
      spend.length === 1
        ? '1 counter matches its rows'
        : `${spend.length} counters match their rows`
    return [
      finding('chain', this.#breaks, `${last} rows, none changed`),
      finding('end', this.#meetsHead ? [] : [cut], 'no row is missing at the end'),
      finding('counters', differences(this.#sums, spend), counters),
    ]
  }
}

const nameOf = ({ key_hash, byok }: Pick<LedgerRow, 'key_hash' | 'byok'>, day: number) =>
  `${key_hash} on day ${day}${byok ? ' (byok)' : ''}`

function differences(sums: Map<string, bigint>, spend: DaySpend[]): string[] {
  const counted = new Map(spend.map(one => [nameOf(one, one.day), one.nanos]))
  const wrong = [...new Set([...sums.keys(), ...counted.keys()])].filter(
    name => (sums.get(name) ?? 0n) !== (counted.get(name) ?? 0n),
  )
  return wrong.map(
    name =>
      `key ${name}: counted $${usdOf(counted.get(name) ?? 0n)}, ` +
      `the rows sum to $${usdOf(sums.get(name) ?? 0n)}`,
  )
}

/** A running call is charged for the steps it has taken, and is not recorded yet. */
const calls = ({ unmatched }: LedgerBooks, running: Set<string>) =>
  finding(
    'calls',
    unmatched
      .filter(({ id, recorded }) => recorded !== null || !running.has(id))
      .map(
        ({ id, charged, recorded }) =>
          `${id}: charged ${shown(charged)}, recorded ${shown(recorded)}`,
      ),
    'every charge has its call, and every call its charge',
  )

const shown = (nanos: bigint | null) => (nanos === null ? 'not at all' : `$${usdOf(nanos)}`)

const holds = ({ length }: HeldCall[]): Finding =>
  finding(
    'holds',
    [],
    length === 0 ? 'no call runs' : `${length} running, or to be settled when the server starts`,
  )

const providerKeys = (gateway: InferenceWorld) =>
  finding(
    'provider keys',
    unreadableKeys(gateway).map(
      ({ id, provider }) => `${provider} key ${id} was sealed with another secret`,
    ),
    'all can be decrypted',
  )
