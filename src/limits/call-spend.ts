import { toDayNumber } from '../base/clock.ts'
import { getDefaultGuardrailId } from '../resources/default-guardrail.ts'
import { buildCallBudgets, listSlugs, nameParts, parseAccount } from './call-budgets.ts'
import type { LedgerRow } from './chain.ts'
import type { Guardrail } from './guardrails/store.ts'
import {
  type Account,
  DAYS_KEPT,
  type PartSum,
  type Subaccount,
  type SubaccountSpend,
} from './ledger.ts'
import type { PolicyWorld } from './policy-world.ts'

/** A row of the ledger, with what the record of its call says; null where it is gone. */
export interface ChargedRow
  extends Pick<
    LedgerRow,
    'key_hash' | 'user_id' | 'workspace_id' | 'byok' | 'nanos' | 'settled_at' | 'source'
  > {
  /** Whether its call has several rows: each may be of another model. */
  isOfSeveral: boolean
  /** Whether it corrects others, which no budget of calls counts. */
  isCorrection: boolean
  model: string | null
  external_user: string | null
}

/**
 * Sums rows of the ledger by end user, tag and model, as `call_spend` counts them. Which tags a call
 * had is on no record, nor is of all rows which model they are of: of these it is known how much they
 * are together.
 */
export class PartReader {
  /** Of what parts are summed, by `nameParts`. */
  readonly #parts: ReadonlySet<string>
  readonly #certain = new Map<string, SubaccountSpend>()
  readonly #others = new Map<string, bigint>()

  constructor(parts: ReadonlySet<string>) {
    this.#parts = parts
  }

  read(row: ChargedRow): void {
    if (row.isCorrection || row.source === 'opening') return
    const day = toDayNumber(new Date(row.settled_at))
    const isCertain = row.source === 'exact' && !row.isOfSeveral && row.model !== null
    for (const owner of listOwners(row)) {
      this.#addOthers(nameParts('tag', owner), day, row)
      if (isCertain) this.#addCertain(owner, day, row)
      else
        for (const by of ['model', 'end_user'] as const)
          this.#addOthers(nameParts(by, owner), day, row)
    }
  }

  #addCertain(
    owner: Account,
    day: number,
    { model, external_user, byok, nanos }: ChargedRow,
  ): void {
    const [models, users] = [nameParts('model', owner), nameParts('end_user', owner)]
    const accounts = [
      ...(this.#parts.has(models) ? listSlugs(model ?? '').map(slug => `${models} ${slug}`) : []),
      ...(this.#parts.has(users) && external_user !== null ? [`${users} ${external_user}`] : []),
    ] as Subaccount[]
    for (const account of accounts) {
      const name = nameDay(account, day, byok)
      const sum = this.#certain.get(name)
      if (sum) sum.nanos += nanos
      else this.#certain.set(name, { account, day, byok, nanos })
    }
  }

  #addOthers(parts: string, day: number, { byok, nanos }: ChargedRow): void {
    if (!this.#parts.has(parts)) return
    const name = nameDay(parts, day, byok)
    this.#others.set(name, (this.#others.get(name) ?? 0n) + nanos)
  }

  /** Compares the sums with what is counted. */
  compare(counted: SubaccountSpend[]): PartSum[] {
    const rows = new Map(counted.map(row => [nameDay(row.account, row.day, row.byok), row]))
    return [...new Set([...rows.keys(), ...this.#certain.keys()])].flatMap(name => {
      const row = rows.get(name) ?? this.#certain.get(name)
      if (!row) return []
      const least = this.#certain.get(name)?.nanos ?? 0n
      const { by, owner } = parseAccount(row.account)
      const others = this.#others.get(nameDay(nameParts(by, owner), row.day, row.byok)) ?? 0n
      return { ...row, nanos: rows.get(name)?.nanos ?? 0n, least, most: least + others }
    })
  }
}

const listOwners = ({ key_hash, workspace_id, user_id }: ChargedRow): Account[] => [
  `key ${key_hash}`,
  `workspace ${workspace_id}`,
  `member ${user_id}`,
]

const nameDay = (account: string, day: number, byok: boolean): string =>
  `${day} ${Number(byok)} ${account}`

/** A budget that counts calls now: of what, and the first day of which it has counted all. */
interface CountingBudget {
  parts: string
  /** Null: each. */
  id: string | null
  since: number
}

/** Lists the budgets of calls that are in force, and since when. */
export function listCountingBudgets({ memory }: Pick<PolicyWorld, 'memory'>): CountingBudget[] {
  return memory.guardrails
    .filter(({ budgets }) => budgets !== null)
    .flatMap(guardrail =>
      listHolders(memory, guardrail).flatMap(({ account, since }) =>
        buildCallBudgets(guardrail.budgets, guardrail.workspace_id, {
          ...{ account, scope: 'key', byok: false },
        }).map(({ by, id }) => ({ parts: nameParts(by, account), id, since })),
      ),
    )
}

/** Lists the accounts that a guardrail holds, and since when as it is. */
function listHolders(
  { assignments }: PolicyWorld['memory'],
  { id, workspace_id, created_at, updated_at }: Guardrail,
): { account: Account; since: number }[] {
  const since = findFirstDay(updated_at ?? created_at)
  const isDefault = id === getDefaultGuardrailId(workspace_id)
  const assigned = assignments.filterMentioning(id, ({ guardrail_id }) => guardrail_id === id)
  return [
    ...(isDefault ? [{ account: `workspace ${workspace_id}` as const, since }] : []),
    ...assigned.map(one => ({
      account: `${one.kind} ${one.assignee}` as const,
      since: Math.max(since, findFirstDay(one.created_at)),
    })),
  ]
}

/** No call that was made before ends later than on the next day. */
const findFirstDay = (at: string): number => toDayNumber(new Date(at)) + 2

/**
 * Names the sums that are not as the calls have them: more than they cost, or less where a budget has
 * counted all of them. Callers' own provider keys may have cost what none counts.
 */
export function findWrongParts(
  parts: PartSum[],
  budgets: CountingBudget[],
  today: number,
): PartSum[] {
  const counting = Map.groupBy(budgets, ({ parts }) => parts)
  const isCounted = ({ account, day, byok }: PartSum): boolean => {
    const { by, owner, id } = parseAccount(account)
    const own = counting.get(nameParts(by, owner)) ?? []
    return (
      !byok &&
      day > today - DAYS_KEPT &&
      own.some(budget => (budget.id === null || budget.id === id) && day >= budget.since)
    )
  }
  return parts.filter(
    part =>
      part.nanos > part.most || part.nanos < 0n || (part.nanos < part.least && isCounted(part)),
  )
}
