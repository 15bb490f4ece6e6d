import { type Static, Type } from '@sinclair/typebox'
import { toDayNumber } from '../base/clock.ts'
import { conflict } from '../base/errors.ts'
import type { Mac } from '../base/mac.ts'
import { toUsd } from '../base/money.ts'
import { type DeadCall, listDeadCalls, listEndProblems } from '../engine/recover.ts'
import type { InferenceWorld } from '../engine/world.ts'
import { findWrongParts, listCountingBudgets } from '../limits/call-spend.ts'
import { digestLedgerRow, hashLedgerRow, type LedgerRow, sealLedgerRow } from '../limits/chain.ts'
import type { DaySpend, InspectionOptions, LedgerBooks, PartSum } from '../limits/ledger.ts'
import type { SealOpening, SealReport } from '../limits/seals.ts'
import { checkHomes } from '../network/containers.ts'
import { type AlertReader, listUnreadableAlerts } from '../observability/alerts.ts'
import { listUnreadableDestinations } from '../observability/destinations.ts'
import type { OutboxStore } from '../observability/outbox.ts'
import type { EvictionStore } from '../observability/retention.ts'
import type { RollupReader } from '../observability/rollups.ts'
import type { Actor } from '../resources/actor.ts'
import { createAuditEntry } from '../resources/audit/entry.ts'
import { listUnreadableByokKeys } from '../resources/byok.ts'
import { checkFiles } from '../resources/files.ts'

/** The result of one check, with a sentence about what was found. */
export interface Finding {
  check: string
  ok: boolean
  found: string
}

/**
 * Checks everything that money depends on, at one moment, also while a server runs. It verifies the
 * structure of the database and the hash chain of the ledger with its end. It recomputes every
 * counter and roll-up, and matches every charge with its call and every call with its charge. It
 * names records that cannot be read or were changed. `onProgress` hears how many rows were read.
 */
export async function examineGateway(
  world: InferenceWorld & RollupReader & AlertReader,
  onProgress?: InspectionOptions['onProgress'],
): Promise<{ data: Finding[] }> {
  const [results, rollups] = await Promise.all([
    runChecks(world, world.secrets.mac, onProgress),
    checkRollups(world),
  ])
  return { data: [...results, rollups].map(toFinding) }
}

/**
 * Compares the record of every file with its bytes, which no backup holds, and counts bytes of no
 * file. Also while a server runs.
 */
export const examineFiles = (world: InferenceWorld): Promise<Finding> =>
  examineBlobs('files', () =>
    checkFiles(world, ({ workspace_id, name }) =>
      world.store.containers.hasBlob(workspace_id, name),
    ),
  )

/** Compares the record of every container’s file with its bytes. Also while a server runs. */
export const examineHomes = (world: InferenceWorld): Promise<Finding> =>
  examineBlobs('containers', () => checkHomes(world))

/** Checks that what waits for destinations outside the database is there, as it was written. */
export async function examineSpool({ store }: OutboxReader): Promise<Finding> {
  const { messages, problems, unneeded } = await store.outbox.inspect()
  const waiting = messages === 1 ? '1 message waits' : `${messages} messages wait`
  const rest =
    unneeded === 0 ? '' : `; ${unneeded} bytes that nothing needs are still to be removed`
  return toFinding(toResult('spool', problems, `${waiting} there${rest}`))
}

/** What has the messages to destinations. */
interface OutboxReader {
  store: { outbox: OutboxStore }
}

async function examineBlobs(
  check: string,
  count: () => Promise<{ count: number; problems: string[]; stray?: number }>,
): Promise<Finding> {
  // Each check stands alone: what the storage itself throws is what this one has found.
  const { count: files, problems, stray = 0 } = await count().catch(describeFailure)
  const found = files === 1 ? '1 file has its bytes' : `${files} files have their bytes`
  const rest = stray === 0 ? '' : `; ${stray} of no file are still to be removed`
  return toFinding(toResult(check, problems, found + rest))
}

const describeFailure = (thrown: unknown) => ({
  count: 0,
  problems: [thrown instanceof Error ? thrown.message : String(thrown)],
  stray: 0,
})

/** Says what retention has removed so far. */
export async function describeEvictions({ store }: EvictionReader): Promise<Finding> {
  const evictions = await store.evictions.all()
  const list = evictions.map(
    ({ kind, reason, rows, last_at }) => `${rows} of ${kind} by ${reason}, last at ${last_at}`,
  )
  const found = list.length === 0 ? 'no row was removed' : `removed: ${list.join('; ')}`
  return { check: 'retention', ok: true, found }
}

/** What has the counts of removed rows. */
interface EvictionReader {
  store: { evictions: EvictionStore }
}

/**
 * Tries every way to run commands that there is, and says which the config has chosen. What is not
 * chosen may be missing.
 */
export async function examineSandboxes({ config, sandboxes }: InferenceWorld): Promise<Finding> {
  const states = await Promise.all(
    sandboxes.map(async sandbox => ({ sandbox, obstacle: await sandbox.findObstacle() })),
  )
  const { kind } = config.sandbox
  const chosen = states.find(({ sandbox }) => sandbox.name === kind)
  const list = states
    .map(({ sandbox: { name, missing }, obstacle }) =>
      [`${name} ${obstacle ?? 'holds'}`, ...(missing ? [missing] : [])].join(', '),
    )
    .join('; ')
  const choice = kind === false ? 'none is enabled (sandbox.kind)' : `${kind} is enabled`
  return { check: 'sandbox', ok: !chosen?.obstacle, found: `${choice}: ${list}` }
}

/** What one check has found. */
export interface CheckResult {
  check: string
  problems: string[]
  /** The sentence where there is no problem. */
  okSentence: string
}

/** Runs every check, with the seals as the owner of this key sees them. */
export async function runChecks(
  world: InferenceWorld & AlertReader,
  mac: Mac,
  onProgress?: InspectionOptions['onProgress'],
): Promise<CheckResult[]> {
  const seals = world.store.seals.under(mac)
  const ends = await listEndProblems(world)
  const opening = await seals.readOpening()
  const chain = new ChainReader(mac, opening)
  const before = world.journal.holds.listCalls()
  const budgets = listCountingBudgets(world)
  const books = await world.store.ledger.inspect(row => chain.read(row), {
    ...{ mac, parts: budgets.map(({ parts }) => parts) },
    ...(onProgress && { onProgress }),
  })
  const dead = await listDeadCalls(world)
  const running = new Set([...before, ...dead.flat()].map(({ id }) => id))
  const report = await seals.inspect()
  return [
    checkStructure(books),
    checkSchema(report),
    ...chain.listResults(books),
    checkParts(books, findWrongParts(books.parts, budgets, toDayNumber(world.clock.now()))),
    checkEnds(world, ends),
    ...checkSeals(report, opening, await world.store.seals.listUnsealed()),
    checkCalls(books, running),
    checkPrompts(books),
    checkRecords(books),
    await checkClock(world),
    describeHolds(dead, world.journal.holds.listGarbled().length),
    toResult('logs', world.journal.damaged.list(), 'none was found damaged'),
    checkProviderKeys(world),
  ]
}

const toResult = (check: string, problems: string[], okSentence: string): CheckResult => ({
  check,
  problems,
  okSentence,
})

const toFinding = ({ check, problems, okSentence }: CheckResult): Finding => ({
  check,
  ok: problems.length === 0,
  found: problems.length === 0 ? okSentence : shortenProblems(problems),
})

const MAX_LISTED = 3

/** Joins the first problems, and counts the others. */
export const shortenProblems = (problems: string[]) =>
  [
    ...problems.slice(0, MAX_LISTED),
    ...(problems.length > MAX_LISTED ? [`and ${problems.length - MAX_LISTED} more`] : []),
  ].join('; ')

const checkStructure = ({ integrity }: LedgerBooks) =>
  toResult('store', integrity, 'the database is intact')

const checkSchema = ({ schema }: SealReport) =>
  toResult('schema', schema, 'every table, index and trigger is as this program made it')

/** Of the date that a time in ISO 8601 begins with. */
const DATE_LENGTH = 10

/** Reads the rows of the ledger once, in order, for all checks. */
class ChainReader {
  readonly #mac: Mac
  /** The last row that the opening covers. */
  readonly #covered: SealOpening['ledger']
  readonly #sums = new Map<string, bigint>()
  readonly #breaks: string[] = []
  readonly #estimated = { rows: 0, nanos: 0n }
  #hash = ''
  #digest = ''
  #last = 0
  #isChained = false
  #date = ''
  #day = 0

  constructor(mac: Mac, opening: SealOpening | null) {
    this.#mac = mac
    this.#covered = opening?.ledger ?? { seq: 0, hash: '' }
  }

  read(row: LedgerRow): void {
    if (this.#covered.digest !== undefined && row.seq <= this.#covered.seq) this.#readCovered(row)
    else this.#readChained(row)
    this.#last = row.seq
    if (row.source === 'estimated') {
      this.#estimated.rows += 1
      this.#estimated.nanos += row.nanos
    }
    const name = renderCounterName(row, this.#findDay(row.settled_at))
    this.#sums.set(name, (this.#sums.get(name) ?? 0n) + row.nanos)
  }

  // Rows of one day follow one another.
  #findDay(time: string): number {
    const date = time.slice(0, DATE_LENGTH)
    if (date !== this.#date) [this.#date, this.#day] = [date, toDayNumber(new Date(time))]
    return this.#day
  }

  // These rows were sealed as they stood, so only their digest counts.
  #readCovered(row: LedgerRow): void {
    this.#digest = digestLedgerRow(this.#digest, row)
    this.#hash = row.hash ?? hashLedgerRow(this.#hash, row)
    this.#isChained ||= row.hash !== null
    if (row.seq === this.#covered.seq) this.#checkCovered(this.#digest === this.#covered.digest)
  }

  #readChained(row: LedgerRow): void {
    const isSealed = row.seq > this.#covered.seq
    const expected = isSealed
      ? sealLedgerRow(this.#mac, this.#hash, row)
      : hashLedgerRow(this.#hash, row)
    if (row.hash === null ? isSealed || this.#isChained : row.hash !== expected)
      this.#breaks.push(`row ${row.seq} (${row.id}) was changed after it was written`)
    if (row.seq !== this.#last + 1)
      this.#breaks.push(`rows are missing between ${this.#last} and ${row.seq}`)
    // A changed row is reported once, and not again at every row after it.
    this.#hash = row.hash ?? expected
    this.#isChained ||= row.hash !== null
    if (row.seq === this.#covered.seq) this.#checkCovered(this.#hash === this.#covered.hash)
  }

  #describeEstimates(): string {
    const { rows, nanos } = this.#estimated
    return rows === 0 ? '' : `; ${rows} of them, $${toUsd(nanos)} together, are estimated`
  }

  #checkCovered(isSame: boolean): void {
    if (!isSame)
      this.#breaks.push(`rows up to ${this.#covered.seq} were written again after they were sealed`)
  }

  listResults({ spend }: LedgerBooks): CheckResult[] {
    const { seq, digest } = this.#covered
    const last = this.#last
    if (digest !== undefined && last < seq)
      this.#breaks.push(`rows are missing between ${last} and ${seq}`)
    const counters =
      spend.length === 1
        ? '1 counter matches its rows'
        : `${spend.length} counters match their rows`
    return [
      toResult('chain', this.#breaks, `${last} rows, none changed${this.#describeEstimates()}`),
      toResult('counters', listDifferences(this.#sums, spend), counters),
    ]
  }
}

function checkParts({ parts }: LedgerBooks, wrong: PartSum[]): CheckResult {
  const count = parts.filter(({ nanos }) => nanos !== 0n).length
  return toResult(
    'budgets',
    wrong.map(
      ({ account, day, byok, nanos, least, most }) =>
        `${account} on day ${day}${byok ? ' (byok)' : ''}: counted $${toUsd(nanos)}, ` +
        `its calls sum to $${toUsd(nanos > most ? most : least)}`,
    ),
    count === 0
      ? 'none of end users, tags or models has counted'
      : `${count} sums of end users, tags and models match their calls`,
  )
}

const checkEnds = (world: InferenceWorld, problems: string[]): CheckResult =>
  toResult(
    'end',
    problems,
    world.journal.head.isKept
      ? 'no row is missing at the end'
      : 'no end is kept for a store in memory',
  )

function checkSeals(
  report: SealReport,
  opening: SealOpening | null,
  unsealed: string[],
): CheckResult[] {
  return [
    toResult('audit', report.audit, 'no entry was changed, added or removed'),
    toResult('rules', report.rules, 'no key, limit, member or other rule was changed outside'),
    toResult(
      'seals',
      report.seals,
      `rows are sealed since ${opening?.sealed_at}; those of ${unsealed.join(', ')} are not`,
    ),
  ]
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
  toResult(
    'calls',
    unmatched
      .filter(({ id, recorded }) => recorded !== null || !running.has(id))
      .map(
        ({ id, charged, recorded }) =>
          `${id}: charged ${renderAmount(charged)}, recorded ${renderAmount(recorded)}`,
      ),
    'every charge has its call, and every call its charge',
  )

const checkPrompts = ({ records: { unpaid } }: LedgerBooks) =>
  toResult(
    'prompts',
    unpaid.map(
      ({ id, taken, charged }) => `${id}: providers took ${taken} prompts, ${charged} are charged`,
    ),
    'every prompt that a provider took is charged',
  )

const checkRecords = ({ records: { count, unsealed, problems } }: LedgerBooks) =>
  toResult(
    'records',
    problems,
    unsealed === 0
      ? `${count} records, none changed`
      : `${count} records, none changed; ${unsealed} of them have no seal that can be checked`,
  )

/**
 * Spending of a day that has not come counts in every window until it is over. The books are in
 * order all the same: a second after midnight, a clock is set back by two.
 */
async function checkClock(world: InferenceWorld): Promise<CheckResult> {
  const future = (await listFutureSpend(world)).map(describeSpend)
  const found = `on days that have not come: ${shortenProblems(future)} (--redate)`
  return toResult('clock', [], future.length === 0 ? 'nothing was spent after today' : found)
}

const renderAmount = (nanos: bigint | null) => (nanos === null ? 'not at all' : `$${toUsd(nanos)}`)

const describeHolds = ({ length }: DeadCall[], garbled: number): CheckResult =>
  toResult(
    'holds',
    garbled === 0 ? [] : [`the log: lines that are not as they were written: ${garbled}`],
    length === 0 ? 'no call runs' : `${length} running, or to be settled when the server starts`,
  )

/** Those of calls that are not rolled up yet are no difference. */
const checkRollups = async ({ store }: RollupReader) =>
  toResult('roll-ups', await store.rollups.verify(), 'every sum is that of its calls')

const checkProviderKeys = (world: InferenceWorld & AlertReader) =>
  toResult(
    'provider keys',
    [
      ...listUnreadableByokKeys(world).map(({ id, provider }) => `${provider} key ${id}`),
      ...listUnreadableDestinations(world).map(({ id, type }) => `${type} destination ${id}`),
      ...listUnreadableAlerts(world).map(({ id }) => `alert ${id}`),
    ].map(sealed => `${sealed} was sealed with another secret`),
    'all can be decrypted',
  )

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
