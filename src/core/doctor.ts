import { unreadableKeys } from './catalog/byok.ts'
import { deadCalls } from './inference/recover.ts'
import type { InferenceWorld } from './inference/world.ts'
import { usdOf } from './kernel/money.ts'
import { dayOf } from './kernel/periods.ts'
import { chained, type LedgerHead, type LedgerRow } from './ledger/chain.ts'
import type { DaySpend, LedgerBooks } from './ledger/ledger.ts'

/** One thing that was looked at, whether it is as it must be, and what was found in a sentence. */
export interface Finding {
  check: string
  ok: boolean
  found: string
}

/**
 * Looks at everything that money depends on, at one moment, also while a server runs: the database's own structure, the chain of the ledger
 * and its end, every counter added up anew, and that every charge has its call and every call its charge.
 */
export async function examine(gateway: InferenceWorld): Promise<{ data: Finding[] }> {
  const head = gateway.journal.head.read()
  const data = gateway.store.ledger.inspect(books => [structure(books), ...ledger(books, head), calls(books)])
  return { data: [...data, await holds(gateway), providerKeys(gateway)] }
}

const finding = (check: string, faults: string[], fine: string): Finding => ({
  check,
  ok: faults.length === 0,
  found: faults.length === 0 ? fine : shortened(faults),
})

const MOST_TOLD = 3
const shortened = (faults: string[]) =>
  [...faults.slice(0, MOST_TOLD), ...(faults.length > MOST_TOLD ? [`and ${faults.length - MOST_TOLD} more`] : [])].join('; ')

const structure = ({ integrity }: LedgerBooks) =>
  finding(
    'store',
    integrity.filter(line => line !== 'ok'),
    'the database is whole',
  )

/** Reads the rows once for all that has to be known of them. */
function ledger({ rows, spend }: LedgerBooks, head: LedgerHead | null): Finding[] {
  const sums = new Map<string, bigint>()
  const breaks: string[] = []
  let [hash, last, isChained, meetsHead] = ['', 0, false, head === null]
  for (const row of rows) {
    const expected = chained(hash, row)
    if (row.hash === null ? isChained : row.hash !== expected) breaks.push(`row ${row.seq} (${row.id}) is not what was written`)
    if (row.seq !== last + 1) breaks.push(`rows are missing between ${last} and ${row.seq}`)
    // A row that was changed is told of once, and not with all that follow it.
    hash = row.hash ?? expected
    isChained ||= row.hash !== null
    last = row.seq
    meetsHead ||= row.seq === head?.seq && hash === head.hash
    const name = nameOf(row, dayOf(new Date(row.settled_at)))
    sums.set(name, (sums.get(name) ?? 0n) + row.nanos)
  }
  return [
    finding('chain', breaks, `${last} rows, each as it was written`),
    finding(
      'end',
      meetsHead ? [] : [`rows are missing at the end: ${head?.seq} were written, the last is ${last}`],
      'no row is missing at the end',
    ),
    finding(
      'counters',
      differences(sums, spend),
      `${spend.length === 1 ? '1 counter is what its' : `${spend.length} counters are what their`} rows add up to`,
    ),
  ]
}

const nameOf = ({ key_hash, byok }: Pick<LedgerRow, 'key_hash' | 'byok'>, day: number) =>
  `${key_hash} on day ${day}${byok ? ' (byok)' : ''}`

function differences(sums: Map<string, bigint>, spend: DaySpend[]): string[] {
  const counted = new Map(spend.map(one => [nameOf(one, one.day), one.nanos]))
  const wrong = [...new Set([...sums.keys(), ...counted.keys()])].filter(name => (sums.get(name) ?? 0n) !== (counted.get(name) ?? 0n))
  return wrong.map(name => `key ${name}: counted $${usdOf(counted.get(name) ?? 0n)}, the rows are $${usdOf(sums.get(name) ?? 0n)}`)
}

const calls = ({ unmatched }: LedgerBooks) =>
  finding(
    'calls',
    unmatched.map(({ id, charged, recorded }) => `${id}: charged ${shown(charged)}, recorded ${shown(recorded)}`),
    'every charge has its call, and every call its charge',
  )

const shown = (nanos: bigint | null) => (nanos === null ? 'not at all' : `$${usdOf(nanos)}`)

async function holds(gateway: InferenceWorld): Promise<Finding> {
  const { length } = await deadCalls(gateway)
  return finding('holds', [], length === 0 ? 'no call runs' : `${length} calls run, or are settled when the server starts`)
}

const providerKeys = (gateway: InferenceWorld) =>
  finding(
    'provider keys',
    unreadableKeys(gateway).map(({ id, provider }) => `${provider} key ${id} was sealed with another secret`),
    'all can be opened',
  )
