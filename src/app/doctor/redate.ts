import { type Static, Type } from '@sinclair/typebox'
import { toDayNumber } from '../../base/clock.ts'
import { conflict } from '../../base/errors.ts'
import { toUsd } from '../../base/money.ts'
import type { InferenceWorld } from '../../engine/world.ts'
import type { DaySpend } from '../../limits/ledger.ts'
import type { Actor } from '../../resources/actor.ts'
import { createAuditEntry } from '../../resources/audit/entry.ts'

/** The input of `gateway doctor --redate`. */
export const Redating = Type.Object({
  reason: Type.String({ minLength: 1, maxLength: 1000 }),
})
export type Redating = Static<typeof Redating>

/** Who dates spending again, and how they agree to it. */
export interface Redater {
  /** Their name at the operating system. */
  system_user: string
  approve(spending: string[]): boolean | Promise<boolean>
}

const DAY = 86_400_000

/** Lists the spending on days after today: the clock ran ahead when it was recorded. */
export async function listFutureSpend({
  store,
  clock,
}: Pick<InferenceWorld, 'store' | 'clock'>): Promise<DaySpend[]> {
  const days = await store.ledger.listDays(toDayNumber(clock.now()) + 1)
  return days.filter(({ nanos }) => nanos !== 0n)
}

/** Describes spending: how much, of which key, on which day. */
export const describeSpend = ({ key_hash, day, nanos, byok }: DaySpend): string =>
  `$${toUsd(nanos)} of key ${key_hash} on ${new Date(day * DAY).toISOString().slice(0, 10)}` +
  (byok ? ' (byok)' : '')

/**
 * Dates spending of days that have not come yet on today, so that it ends with today's windows. The
 * ledger gets two rows for each key and day: what is taken from the one, and added to the other. The
 * records of the calls stay as they are. The audit trail says who did it, and why. Throws 409 while
 * a server runs, where there is no such spending, and where it is not approved.
 */
export async function redateSpend(
  world: InferenceWorld & { lock(): Promise<() => Promise<void>> },
  actor: Actor,
  { reason }: Redating,
  redater: Redater,
): Promise<void> {
  const unlock = await world.lock()
  try {
    const future = await listFutureSpend(world)
    if (future.length === 0) throw conflict('There is no spending on a day after today')
    if (!(await redater.approve(future.map(describeSpend)))) throw conflict('Nothing was changed')
    const before = { spending: future.map(describeSpend) }
    const after = { reason, system_user: redater.system_user, day: readToday(world) }
    const target = { id: 'ledger', workspace_id: null }
    const entry = createAuditEntry(world, actor, 'ledger.redate', target, before, after)
    await world.store.audit.append(entry)
    for (const spending of future) await moveSpend(world, spending)
  } finally {
    await unlock()
  }
}

const readToday = ({ clock }: Pick<InferenceWorld, 'clock'>): string =>
  clock.now().toISOString().slice(0, 10)

/** Takes spending from its day and adds it to today, in one transaction. */
async function moveSpend(world: InferenceWorld, spending: DaySpend): Promise<void> {
  const now = world.clock.now()
  const charge = { ...spending, id: `redate-${world.ids.uuid()}`, source: 'exact' as const }
  const moves = [
    {
      ...{ ...charge, step: 1, nanos: -spending.nanos },
      settled_at: new Date(spending.day * DAY).toISOString(),
    },
    { ...charge, step: 2, day: toDayNumber(now), settled_at: now.toISOString() },
  ]
  await world.store.generations.record(moves.map(move => ({ generation: null, charge: move })))
  for (const move of moves) world.ledger.charge(move)
}
