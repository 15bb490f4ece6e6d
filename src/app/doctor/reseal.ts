import { type Static, Type } from '@sinclair/typebox'
import { conflict } from '../../base/errors.ts'
import { rewriteEnds } from '../../engine/recover.ts'
import type { InferenceWorld } from '../../engine/world.ts'
import type { RecordSecrets } from '../../limits/seals.ts'
import type { AlertReader } from '../../observability/alerts.ts'
import type { Actor } from '../../resources/actor.ts'
import { createAuditEntry } from '../../resources/audit/entry.ts'
import { type CheckResult, type Finding, runChecks, shortenProblems } from '../doctor.ts'

/** What resealing needs in addition: the secret before this one, if the operator has kept it. */
export interface ResealWorld extends InferenceWorld {
  memory: InferenceWorld['memory'] & AlertReader['memory']
  secrets: InferenceWorld['secrets'] & { previous(): RecordSecrets | null }
  /**
   * Locks the data directory and its database against servers. Resolves with the function that
   * unlocks them. Throws 409 while a server runs.
   */
  lock(): Promise<() => Promise<void>>
}

/** The input of `gateway doctor --reseal`, which is the only way to seal rows as they stand. */
export const Reseal = Type.Object({
  reason: Type.String({ minLength: 1, maxLength: 1000 }),
})
export type Reseal = Static<typeof Reseal>

/** What resealing would accept, and what it cannot mend. */
export interface ResealPlan {
  /** What is broken, and would count as genuine from then on. */
  accepted: Finding[]
  /** What stays wrong. */
  remaining: Finding[]
  /** Whether the seals are another secret's, and that secret is at hand. */
  rotates: boolean
}

/** The checks whose findings end with new seals. */
const RESEALED = new Set(['chain', 'end', 'audit', 'rules', 'seals', 'records'])
/** The checks without which nothing is sealed: another program could act on what is written. */
const REQUIRED = new Set(['store', 'schema'])

/**
 * Finds out what resealing would accept. With the previous secret at hand, what that one or the
 * current one has sealed is genuine. Throws 409 for a damaged database, and for tables, indexes and
 * triggers that are not this program's.
 */
export async function planReseal(world: ResealWorld): Promise<ResealPlan> {
  const current = await runChecks(world, world.secrets.mac)
  const previous = await findPrevious(world)
  const results = previous
    ? intersectProblems(current, await runChecks(world, previous.mac))
    : current
  const wrong = results.filter(({ problems }) => problems.length > 0)
  const blocking = wrong.find(({ check }) => REQUIRED.has(check))
  if (blocking)
    throw conflict(
      `${blocking.check}: ${shortenProblems(blocking.problems)}. Mend this first: what is not as ` +
        'this program made it could change what is sealed',
    )
  return {
    accepted: wrong.filter(({ check }) => RESEALED.has(check)).map(showResult),
    remaining: wrong
      .filter(({ check }) => !RESEALED.has(check))
      .filter(({ check }) => !previous || check !== 'provider keys')
      .map(showResult),
    rotates: previous !== null,
  }
}

/**
 * Returns the previous secret if the seals are still its own. Throws 409 for one that is at hand and
 * has sealed nothing here: what is encrypted would be lost, and another try refused.
 */
async function findPrevious({ secrets, store }: ResealWorld): Promise<RecordSecrets | null> {
  const previous = secrets.previous()
  if (!previous || (await store.seals.readOpening())) return null
  if (await store.seals.under(previous.mac).readOpening()) return previous
  throw conflict(
    'The previous secret (secret.key.previous, GATEWAY_PREVIOUS_SECRET) has sealed nothing here. ' +
      'Give the right one, or none where it is lost',
  )
}

/** Keeps the problems that remain under both secrets. */
const intersectProblems = (one: CheckResult[], other: CheckResult[]): CheckResult[] =>
  one.map(result => {
    const rest = new Set(other.find(({ check }) => check === result.check)?.problems)
    return { ...result, problems: result.problems.filter(problem => rest.has(problem)) }
  })

const showResult = ({ check, problems }: CheckResult): Finding => ({
  check,
  ok: false,
  found: shortenProblems(problems),
})

/** The person who reseals, and how they approve a plan. */
export interface Resealer {
  /** Their name at the operating system. */
  system_user: string
  approve(plan: ResealPlan): boolean | Promise<boolean>
}

/**
 * Seals every row as it stands with the current secret, and encrypts again what the previous secret
 * has encrypted. The audit trail says who accepted what, and why. Throws 409 while a server runs,
 * because it would go on with the secret that it has read, as `planReseal` does, where there is
 * nothing to reseal, and where the plan is not approved.
 */
export async function resealRecords(
  world: ResealWorld,
  actor: Actor,
  input: Reseal,
  resealer: Resealer,
): Promise<void> {
  const unlock = await world.lock()
  try {
    const plan = await planReseal(world)
    if (!plan.rotates && plan.accepted.length === 0)
      throw conflict('There is nothing to reseal: every seal is valid')
    if (!(await resealer.approve(plan))) throw conflict('Nothing was resealed')
    await writeSeals(world, actor, plan, { ...input, system_user: resealer.system_user })
  } finally {
    await unlock()
  }
}

async function writeSeals(
  world: ResealWorld,
  actor: Actor,
  plan: ResealPlan,
  resealing: Reseal & { system_user: string },
): Promise<void> {
  const before = { accepted: plan.accepted.map(({ check, found }) => `${check}: ${found}`) }
  const after = { ...resealing, new_secret: plan.rotates }
  const target = { id: 'seals', workspace_id: null }
  const entry = createAuditEntry(world, actor, 'seals.reseal', target, before, after)
  const isOwn = Boolean(await world.store.seals.readOpening())
  await world.store.seals.reseal(entry, await findPrevious(world))
  if (!isOwn) await world.journal.holds.reseal(plan.rotates)
  await rewriteEnds(world)
}
