import { computeFirstDay, isLongTurn, type Period, yieldToEventLoop } from '../../base/clock.ts'
import { renderDollars, toUsd } from '../../base/money.ts'
import { listSoftLimits } from '../../limits/budgets.ts'
import {
  type CallBudget,
  getWholeAccount,
  listKnownLimits,
  parseAccount,
  WORDS,
} from '../../limits/call-budgets.ts'
import { listCreditBounds } from '../../limits/credits.ts'
import { getPolicy } from '../../limits/effective.ts'
import type { Account, Limit, Subaccount } from '../../limits/ledger.ts'
import { buildKeyActor } from '../../resources/actor.ts'
import type { Key } from '../../resources/keys/store.ts'
import { Reading } from '../rollups/reading.ts'
import { addSums, createSums, toDay, toHour } from '../rollups.ts'
import type { AlertWindow } from './schema.ts'
import type { Alert } from './store.ts'
import type { AlertWorld } from './world.ts'

/** Something that an alert may tell, if it has reached a threshold. */
export interface Finding {
  /** What it is about: always the same text of the same thing. */
  subject: string
  value: number
  window: FindingWindow
  /** A sentence for people. */
  message: string
  /** What it is about, for programs. */
  data: Record<string, unknown>
}

/** The window in which each threshold is told once. Times are ISO 8601. */
interface FindingWindow {
  /** `lifetime` of a limit that never resets. */
  start: string
  /** After this it may be forgotten; null for never. */
  end: string | null
}

const HOUR = 3_600_000
const DAY = 24 * HOUR
const DAYS: Record<Period, number> = { daily: 1, weekly: 7, monthly: 31 }

const renderMoment = (moment: number): string => new Date(moment).toISOString()

function findWindow({ window }: Pick<Alert, 'window'>, now: Date): FindingWindow {
  const size = window === 'hourly' ? HOUR : DAY
  const start = Math.floor(now.getTime() / size) * size
  return { start: renderMoment(start), end: renderMoment(start + size) }
}

/**
 * Finds the limits of some keys, and what is spent of them, by the workspaces that they are told in.
 * Those of a workspace, soft ones too, and of a member are found once.
 */
export async function findLimits(
  world: AlertWorld,
  keys: Iterable<Key>,
): Promise<Map<string, Finding[]>> {
  const found = new Map<string, Map<string, Finding>>()
  const listParts = createPartLister(world)
  await eachInTurns(world, keys, key => {
    if (key.disabled) return
    const { bounds, budgets } = getPolicy(world, buildKeyActor(world, key))
    const known = budgets ? listParts(budgets) : []
    for (const limit of [...bounds, ...listSoftLimits(world, key.workspace_id), ...known]) {
      const { account, period } = limit
      if (account === 'all') continue
      // What a member may spend is no matter of one workspace.
      const isOfMember = getWholeAccount(account).startsWith('member ')
      const id = isOfMember ? world.memory.owner.workspace_id : key.workspace_id
      const findings = found.get(id) ?? new Map<string, Finding>()
      found.set(id, findings)
      const subject = `${account} ${period} ${limit.limit}`
      if (!findings.has(subject)) findings.set(subject, buildLimitFinding(world, limit, subject))
    }
  })
  return new Map([...found].map(([id, findings]) => [id, [...findings.values()]]))
}

/** Lists what budgets limit by end user, tag and model, those of each account once. */
function createPartLister({ ledger }: AlertWorld): (budgets: CallBudget[]) => Limit[] {
  let known: Map<Account, Subaccount[]> | undefined
  return budgets => {
    known ??= Map.groupBy(ledger.listSubaccounts(), getWholeAccount)
    const parts = budgets.map(({ account }) => account)
    return [...new Set(parts)].flatMap(account => {
      const subaccounts = known?.get(account) ?? []
      known?.delete(account)
      return listKnownLimits(budgets, subaccounts)
    })
  }
}

function buildLimitFinding(
  world: AlertWorld,
  { account, period, limit, byok }: Limit,
  subject: string,
): Finding {
  const { ledger, clock } = world
  const spent =
    ledger.getSpent(account, period, false) + (byok ? ledger.getSpent(account, period, true) : 0n)
  const value = limit === 0n ? 1 : Number((spent * 1_000_000n) / limit) / 1_000_000
  const whole = getWholeAccount(account)
  const [kind, id = ''] = whole.split(' ')
  const { field, nameAccount } = ACCOUNTS[kind as keyof typeof ACCOUNTS]
  const name = nameAccount(world, id)
  const part = whole === account ? null : parseAccount(account)
  const what = part ? `${WORDS[part.by]} ${part.id} of the ${kind} ${name}` : `${kind} ${name}`
  const amounts = `${renderDollars(spent)} of ${renderDollars(limit)}`
  return {
    ...{ subject, value, window: findLimitWindow(period, clock.now()) },
    message: `The ${what} has spent ${renderShare(value)} of its ${period ?? 'total'} limit: ${amounts}`,
    data: {
      ...{ account: kind, [field]: id, name },
      ...(part ? { [part.by]: part.id } : {}),
      ...{ period, spent: toUsd(spent), limit: toUsd(limit) },
    },
  }
}

/** How the id of an account's owner is told, and the owner is called. */
const ACCOUNTS = {
  key: { field: 'key_hash', nameAccount: nameKey },
  workspace: {
    field: 'workspace_id',
    nameAccount: ({ memory }: AlertWorld, id: string) => memory.workspaces.get(id)?.slug ?? id,
  },
  member: {
    field: 'user_id',
    nameAccount: (_: AlertWorld, id: string) => id,
  },
}

function findLimitWindow(period: Period | null, now: Date): FindingWindow {
  if (period === null) return { start: 'lifetime', end: null }
  const start = computeFirstDay(period, now) * DAY
  return { start: renderMoment(start), end: renderMoment(start + DAYS[period] * DAY) }
}

function nameKey({ memory }: AlertWorld, hash: string): string {
  const key = memory.keys.get(hash)
  return key?.name || key?.label || hash
}

const renderShare = (share: number): string => `${Math.floor(share * 1000) / 10} %`

/** Of fewer calls one that fails would be a high rate. */
const FEWEST_CALLS = 10

/** Finds how many calls have failed since the window began. */
export async function findErrors(world: AlertWorld, alert: Alert): Promise<Finding[]> {
  const now = world.clock.now()
  const { workspace_id, key_hash } = alert
  const window = alert.window ?? 'daily'
  const sums = createSums()
  const reading = new Reading(world)
  await reading.rollUp()
  const query = {
    ...{ by: [], isByTime: false, ...findGrain(window, now) },
    conditions: [
      { dimension: 'workspace_id' as const, comparison: 'eq' as const, values: [workspace_id] },
      ...(key_hash === null
        ? []
        : [{ dimension: 'key_hash' as const, comparison: 'eq' as const, values: [key_hash] }]),
    ],
  }
  for await (const row of reading.readSums(query)) addSums(sums, row.sums)
  const { calls, failed_calls } = sums
  if (calls < FEWEST_CALLS) return []
  const value = failed_calls / calls
  const whose = key_hash === null ? 'calls' : `calls of the key ${nameKey(world, key_hash)}`
  const since = window === 'hourly' ? 'this hour' : 'today'
  return [
    {
      ...{ subject: 'calls', value, window: findWindow(alert, now) },
      message: `${failed_calls} of ${calls} ${whose} ${since} have failed: ${renderShare(value)}`,
      data: { calls, failed_calls, key_hash },
    },
  ]
}

function findGrain(window: AlertWindow, now: Date) {
  const hour = toHour(now.getTime())
  return window === 'hourly'
    ? { grain: 'hour' as const, from: hour, until: hour + 1 }
    : { grain: 'day' as const, from: toDay(hour), until: toDay(hour) + 1 }
}

/** What providers have said lately, by their slugs: that the account is empty, or an answer. */
export interface Accounts {
  empty: Set<string>
  answering: Set<string>
}

/** Finds the providers whose account is empty, and those that have answered since. */
export function findEmpty(
  world: AlertWorld,
  alert: Alert,
  { empty, answering }: Accounts,
): Finding[] {
  const isOwn = (slug: string) => alert.provider === null || alert.provider === slug
  const build = (provider: string, value: number, message: string): Finding => ({
    ...{ subject: provider, value, window: findWindow(alert, world.clock.now()), message },
    data: { provider },
  })
  return [
    ...Array.from(empty, slug =>
      build(
        slug,
        1,
        `${slug} says that the account there has no money left: its calls fail until you pay in`,
      ),
    ),
    ...Array.from(answering.difference(empty), slug => build(slug, 0, `${slug} answers calls`)),
  ].filter(({ subject }) => isOwn(subject))
}

/** Finds how many calls wait for destinations. */
export function findBacklogs(world: AlertWorld, alert: Alert): Finding[] {
  const { workspace_id, destination_id } = alert
  const counts = new Map(
    world.deliveries.list().map(({ destination_id: id, waiting }) => [id, waiting]),
  )
  return world.memory.destinations
    .listByWorkspace(workspace_id)
    .filter(({ destination: { id } }) => destination_id === null || destination_id === id)
    .map(({ destination: { id, name } }) => {
      const waiting = counts.get(id) ?? 0
      return {
        ...{ subject: id, value: waiting, window: findWindow(alert, world.clock.now()) },
        message: `${waiting} calls wait for the destination ${name}`,
        data: { destination_id: id, name, waiting },
      }
    })
}

/** The farthest end that a threshold may be about, in days. */
const FARTHEST = 365

/** Finds the keys that end within a year, by their workspaces. */
export async function findEnding(world: AlertWorld): Promise<Map<string, Finding[]>> {
  const found = new Map<string, Finding[]>()
  const now = world.clock.now().getTime()
  await eachInTurns(world, world.memory.keys.values(), key => {
    const { hash, expires_at, disabled, workspace_id } = key
    if (expires_at === null || disabled) return
    const days = (Date.parse(expires_at) - now) / DAY
    if (!(days > 0 && days <= FARTHEST)) return
    const name = nameKey(world, hash)
    const finding = {
      ...{ subject: `key ${hash}`, value: days, window: { start: expires_at, end: expires_at } },
      message: `The key ${name} ends at ${expires_at}`,
      data: { key_hash: hash, name, expires_at },
    }
    found.set(workspace_id, [...(found.get(workspace_id) ?? []), finding])
  })
  return found
}

/** Finds what is left of the credits; nothing where they are not counted. */
export function findCredits(world: AlertWorld, alert: Alert): Finding[] {
  return listCreditBounds(world).map(({ account, limit }) => {
    const left = limit - world.ledger.getSpent(account, null, false)
    const text = left < 0n ? `-${renderDollars(-left)}` : renderDollars(left)
    return {
      ...{ subject: 'credits', value: toUsd(left), window: findWindow(alert, world.clock.now()) },
      message: `${text} of credits are left`,
      data: { left: toUsd(left) },
    }
  })
}

/** Does something with each key, and gives others their turn. */
async function eachInTurns(
  { clock }: AlertWorld,
  keys: Iterable<Key>,
  work: (key: Key) => void,
): Promise<void> {
  let startedAt = clock.ticks()
  for (const key of keys) {
    work(key)
    if (!isLongTurn(clock, startedAt)) continue
    await yieldToEventLoop()
    startedAt = clock.ticks()
  }
}
