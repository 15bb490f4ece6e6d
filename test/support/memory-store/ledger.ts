import { toDayNumber, yieldToEventLoop } from '../../../src/base/clock.ts'
import { nameParts, parseAccount } from '../../../src/limits/call-budgets.ts'
import { PartReader } from '../../../src/limits/call-spend.ts'
import { hashLedgerRow, type LedgerRow } from '../../../src/limits/chain.ts'
import type {
  Charge,
  DaySpend,
  LedgerBooks,
  LedgerStore,
  Opening,
  PartSum,
  SubaccountSpend,
} from '../../../src/limits/ledger.ts'
import type { Connection, Memory } from './memory.ts'
import { compareByFields } from './table.ts'

/** Spending in memory. `generations.ts` writes it together with the calls it belongs to. */
export const createMemoryLedgerStore = (connection: Connection): LedgerStore => ({
  listDays: since => connection.read(({ spend }) => spend.all(({ day }) => day >= since)),
  listTotals: () => connection.read(({ spend }) => sumByPayer(spend.all())),
  listSubaccountDays: (accounts, since) =>
    connection.read(({ callSpend }) =>
      callSpend.all(({ account, day }) => accounts.includes(account) && day >= since),
    ),
  removeSubaccountDays: before =>
    connection.write(({ callSpend }) => {
      const old = callSpend.all(({ day }) => day < before)
      for (const one of old) callSpend.remove(nameCallSpend(one))
      return old.length
    }),
  listCharges: id =>
    connection.read(({ ledger }) =>
      ledger
        .all(row => row.id === id)
        .sort(compareByFields('step'))
        .map(({ step, byok, nanos }) => ({ step, byok, nanos })),
    ),
  listOpenings: after =>
    connection.read(({ ledger }) =>
      ledger
        .all()
        .filter(({ source, seq }) => source === 'opening' && seq > after)
        .map(row => ({ ...row, day: toDayNumber(new Date(row.settled_at)) })),
    ),
  readHead: () =>
    connection.read(({ ledger }) => {
      const last = ledger.all().at(-1)
      return last?.hash ? { seq: last.seq, hash: last.hash } : null
    }),
  has: ({ seq, hash }) =>
    connection.read(({ ledger }) => seq === 0 || ledger.all()[seq - 1]?.hash === hash),
  async inspect(see, { parts = [] } = {}) {
    const { rows, books } = await connection.read(memory => ({
      rows: memory.ledger.all(),
      books: { ...readBooks(memory), parts: sumParts(memory, parts) },
    }))
    for (const row of rows) {
      await yieldToEventLoop()
      see(row)
    }
    return books
  },
})

function sumByPayer(days: DaySpend[]): Omit<DaySpend, 'day'>[] {
  const payers = Map.groupBy(days, ({ key_hash, user_id, workspace_id, byok }) =>
    JSON.stringify([key_hash, user_id, workspace_id, byok]),
  )
  return [...payers.values()].flatMap(([first, ...others]) => {
    if (!first) return []
    const { day: _, nanos, ...payer } = first
    return [{ ...payer, nanos: others.reduce((sum, one) => sum + one.nanos, nanos) }]
  })
}

function sumParts({ ledger, generations, callSpend }: Memory, asked: string[]): PartSum[] {
  const counted = callSpend.all()
  const names = counted.map(({ account }) => parseAccount(account))
  const reader = new PartReader(
    new Set([...asked, ...names.map(({ by, owner }) => nameParts(by, owner))]),
  )
  const rows = ledger.all()
  for (const row of rows) {
    const record = generations.get(row.id)
    reader.read({
      ...row,
      isOfSeveral: rows.filter(({ id }) => id === row.id).length > 1,
      isCorrection: record?.api_type === 'correction',
      model: record?.model ?? null,
      external_user: record?.external_user ?? null,
    })
  }
  return reader.compare(counted)
}

function readBooks({ ledger, spend, generations, evicted }: Memory): Omit<LedgerBooks, 'parts'> {
  const sums = new Map<string, bigint>()
  for (const { id, nanos, source } of ledger.all())
    if (source !== 'opening') sums.set(id, (sums.get(id) ?? 0n) + nanos)
  const costs = new Map(
    [...generations.all(), ...evicted.all()]
      .filter(({ key_hash }) => key_hash !== null)
      .map(({ id, upstream_inference_cost }) => [id, upstream_inference_cost ?? 0n]),
  )
  const ids = [...new Set([...sums.keys(), ...costs.keys()])]
  const both = ids.map(id => ({
    id,
    charged: sums.get(id) || null,
    recorded: costs.get(id) || null,
  }))
  const unmatched = both.filter(({ charged, recorded }) => charged !== recorded)
  return {
    integrity: [],
    spend: spend.all(),
    unmatched,
    records: { count: generations.all().length, unsealed: 0, problems: [], unpaid: [] },
  }
}

/** Adds a row to the chain, in the transaction that records its call. */
export function addRow({ ledger }: Memory, charge: Opening & Pick<LedgerRow, 'source'>): void {
  const last = ledger.all().at(-1)
  const { day: _, ...row } = charge
  const hash = hashLedgerRow(last?.hash ?? '', row)
  ledger.insert(`${row.id} ${row.step}`, { seq: (last?.seq ?? 0) + 1, ...row, hash })
}

/** Counts a charge, in the transaction that records its call. */
export function addSpend({ spend }: Memory, charge: Opening): void {
  const { key_hash, user_id, workspace_id, day, byok, nanos } = charge
  const name = `${key_hash} ${day} ${byok}`
  const before = spend.get(name)
  if (before) spend.update(name, { nanos: before.nanos + nanos })
  else spend.insert(name, { key_hash, user_id, workspace_id, day, byok, nanos })
}

/** Counts a charge in the parts of accounts that it names. */
export function addCallSpend({ callSpend }: Memory, charge: Charge): void {
  const { subaccounts = [], day, byok, nanos } = charge
  for (const account of subaccounts) {
    const name = nameCallSpend({ account, day, byok })
    const before = callSpend.get(name)
    if (before) callSpend.update(name, { nanos: before.nanos + nanos })
    else callSpend.insert(name, { account, day, byok, nanos })
  }
}

const nameCallSpend = ({ account, day, byok }: Omit<SubaccountSpend, 'nanos'>): string =>
  `${account} ${day} ${byok}`
