import { toDayNumber } from '../base/clock.ts'
import type { Events } from '../base/events.ts'
import { toUsd } from '../base/money.ts'
import type { Kind } from '../language/work.ts'
import type { Ends } from '../limits/chain.ts'
import type { GarbledCall, HeldCall, StepCharge } from '../limits/ledger.ts'
import type { ExportedCall } from '../observability/destinations/exported-call.ts'
import { listSubscribers } from '../observability/destinations/subscribers.ts'
import type { TraceFacts } from '../observability/destinations/trace.ts'
import type { Generation, RecorderEntry } from '../observability/generations/store.ts'
import type { OutboxMessage } from '../observability/outbox.ts'
import { kinds } from './kinds.ts'
import type { InferenceWorld } from './world.ts'

/** What a dead process has left, as it was settled. */
export interface Recovery {
  /** How many calls there were. */
  calls: number
  /** Lines of the journal that are not as they were written, and how many calls they cost. */
  garbled: { lines: number; charged: number; unknown: number }
}

/**
 * Settles the calls that a dead process left, each once: their clients got no end, but providers
 * were called. A call costs what its settled steps were charged. Its last step costs its prompt and
 * what it was known to have delivered, unless that is in the ledger too. The record says
 * `estimated`. Garbled lines of the journal are charged at what can be read of them. May only run
 * with the lock of the data directory.
 */
export async function recoverCalls(world: InferenceWorld): Promise<Recovery> {
  const garbled = world.journal.holds.listGarbled()
  const deadCalls = await listDeadCalls(world)
  const guessed = await listGarbledCalls(world, garbled)
  await Promise.all([...deadCalls, ...guessed.calls].map(steps => settleDeadCall(world, steps)))
  await world.journal.holds.clear()
  return {
    calls: deadCalls.length,
    garbled: { lines: garbled.length, charged: guessed.calls.length, unknown: guessed.unknown },
  }
}

/**
 * Lists the calls of garbled lines that are neither on record nor in another line, each with what it
 * costs at least: a changed digit must not cost a fortune. `unknown` counts the lines that name no
 * call, or no key of this gateway.
 */
async function listGarbledCalls(
  { memory, journal: { holds }, store, clock }: InferenceWorld,
  lines: GarbledCall[],
): Promise<{ calls: DeadCall[]; unknown: number }> {
  const listed = new Set(holds.listCalls().flatMap(({ id, request_id }) => [id, request_id]))
  const byId = new Map(lines.map(line => [line.id ?? '', line]))
  const calls: DeadCall[] = []
  let unknown = lines.filter(({ id }) => id === null).length
  byId.delete('')
  for (const { id, request_id, key_hash, estimate, ...line } of byId.values()) {
    const names = [id, request_id].filter(name => name !== null)
    const isKnown = names.some(name => listed.has(name)) || (await isOnRecord(store, names))
    if (isKnown) continue
    const key = key_hash === null ? undefined : memory.keys.get(key_hash)
    if (!key || id === null) {
      unknown += 1
      continue
    }
    const payer = { key_hash: key.hash, user_id: key.creator_user_id ?? memory.owner.user_id }
    const call = { ...payer, workspace_id: key.workspace_id, id, request_id: request_id ?? id }
    const amounts = { nanos: estimate, spent: estimate, byok: false, step: 1 }
    const facts = { model: line.model ?? '', api_type: line.api_type ?? 'completions' }
    const created_at = line.created_at ?? clock.now().toISOString()
    calls.push([{ ...call, ...amounts, ...facts, created_at, streamed: false }])
  }
  return { calls, unknown }
}

const isOnRecord = async (
  { generations }: InferenceWorld['store'],
  names: string[],
): Promise<boolean> => {
  const found = await Promise.all(names.map(id => generations.list({ id }, 1)))
  return found.some(calls => calls.length > 0)
}

/** A call of a dead process: the steps that ran, of which the last is one of the call itself. */
export type DeadCall = [...inner: HeldCall[], last: HeldCall]

/**
 * Lists the calls that are in the journal but not on record. Those whose jobs go on are not among
 * them.
 */
export async function listDeadCalls({
  journal: { holds },
  store,
}: InferenceWorld): Promise<DeadCall[]> {
  const byId = Map.groupBy(holds.listCalls(), ({ id }) => id)
  const open = new Set((await store.videos.listOpen()).map(job => job.generation_id))
  const recorded = await store.generations.filterRecorded([...byId.keys()])
  return [...byId].flatMap(([id, steps]) =>
    open.has(id) || recorded.has(id) ? [] : [sortSteps(steps)],
  )
}

// A model that costs nothing has no entry of its own, but a tool that it calls may ask another.
const sortSteps = (steps: HeldCall[]): DeadCall =>
  steps.toSorted((a, b) => Number(!a.inner) - Number(!b.inner) || a.step - b.step) as DeadCall

/** Charges every step that is not in the ledger yet, the last one together with the record. */
async function settleDeadCall(world: InferenceWorld, steps: DeadCall): Promise<void> {
  const settledAt = world.clock.now()
  const heldCall = steps.at(-1) as HeldCall
  const previous = await world.store.ledger.listCharges(heldCall.id)
  const uncharged = steps.filter(({ step }) => !previous.some(charged => charged.step === step))
  const charges = uncharged.map(one => toDeadCharge(one, settledAt))
  for (const charge of charges) world.ledger.leases?.noteEarlier(charge)
  const subaccounts = charges.flatMap(charge => charge.subaccounts ?? [])
  const close = await world.ledger.openSubaccounts(subaccounts)
  const last = uncharged.at(-1) === heldCall ? (charges.at(-1) ?? null) : null
  for (const charge of charges)
    if (charge !== last) await world.recorder.record({ generation: null, charge })
  const generation = toDeadGeneration(heldCall, [...previous, ...charges], settledAt)
  const outbox = buildDeadMessages(world, generation)
  await world.recorder.record({ generation, charge: last, ...(outbox ? { outbox } : {}) })
  for (const charge of charges) world.ledger.charge(charge)
  close()
}

/**
 * Builds the message about a call of a dead process, with what is known of it: what is charged is
 * told to destinations. Undefined where none has to be told.
 */
function buildDeadMessages(
  world: InferenceWorld,
  generation: Generation,
): OutboxMessage[] | undefined {
  const { id, workspace_id, key_hash, session_id, data_region: region } = generation
  const origin = { region }
  const subscribers = listSubscribers(world, { workspace_id, key_hash }, { id, session_id, origin })
  if (subscribers.length === 0) return undefined
  const told: ExportedCall = {
    ...{ id, workspace_id, key_hash, region, session_id },
    facts: buildDeadFacts(world, generation),
    ...{ input: null, output: null, trace: null, attempts: [], steps: [], groups: {} },
  }
  const receivers = subscribers.map(({ destination }) => destination.id)
  return [{ topic: 'trace', payload: JSON.stringify(told), receivers }]
}

function buildDeadFacts({ memory }: InferenceWorld, generation: Generation): TraceFacts {
  const { model, api_type, key_hash, created_at, settled_at, total_cost } = generation
  const key = key_hash === null ? undefined : memory.keys.get(key_hash)
  const [author = model] = model.split('/', 1)
  const work = Object.entries(kinds).find(([, { apiType }]) => apiType === api_type)
  const cost = total_cost === null ? null : toUsd(total_cost)
  return {
    ...{ kind: (work?.[0] ?? 'text') as Kind, model, author },
    providerName: generation.provider_name,
    ...{ finishReason: null, nativeFinishReason: null, userId: null, sessionId: null },
    error: { type: 'server', message: 'The gateway ended before the call did' },
    apiKeyName: key?.name ?? null,
    streamed: generation.streamed,
    startedAt: Date.parse(created_at),
    endedAt: Date.parse(settled_at),
    firstTokenMs: null,
    ...{ promptTokens: 0, completionTokens: 0, cachedTokens: 0 },
    ...{ cacheWriteTokens: 0, reasoningTokens: 0 },
    ...{ inputCost: cost, outputCost: cost === null ? null : 0, totalCost: cost, parameters: {} },
  }
}

function toDeadCharge(heldCall: HeldCall, settledAt: Date): StepCharge {
  const { key_hash, user_id, workspace_id, id, step, byok, spent: nanos } = heldCall
  const time = { day: toDayNumber(settledAt), settled_at: settledAt.toISOString() }
  const parts = heldCall.subaccounts ? { subaccounts: heldCall.subaccounts } : {}
  const payer = { key_hash, user_id, workspace_id, ...parts }
  return { ...payer, id, step, byok, nanos, ...time, source: 'estimated' }
}

const sumCharges = (charges: Pick<StepCharge, 'nanos'>[]) =>
  charges.reduce((sum, { nanos }) => sum + nanos, 0n)

const toDeadGeneration = (
  {
    nanos: _,
    spent: __,
    step: ___,
    inner: ____,
    subaccounts: _____,
    byok,
    provider,
    region,
    ...call
  }: HeldCall,
  charges: Pick<StepCharge, 'byok' | 'nanos'>[],
  settledAt: Date,
): Generation => ({
  ...call,
  batch_id: call.batch_id ?? null,
  is_byok: byok,
  total_cost: sumCharges(charges.filter(charge => !charge.byok)),
  upstream_inference_cost: sumCharges(charges),
  settled_at: settledAt.toISOString(),
  usageSource: 'estimated',
  finish_reason: 'error',
  error_type: 'server',
  cancelled: false,
  provider_name: provider ?? null,
  provider_responses: [],
  upstream_id: null,
  native_finish_reason: null,
  latency: null,
  generation_time: null,
  native_tokens_prompt: 0,
  native_tokens_completion: 0,
  native_tokens_reasoning: 0,
  native_tokens_cached: 0,
  native_tokens_completion_images: 0,
  service_tier: null,
  session_id: null,
  external_user: null,
  http_referer: null,
  title: null,
  user_agent: null,
  preset_id: null,
  data_region: region ?? 'global',
  router: null,
  response_cache_source_id: null,
  contentFilters: [],
  steps: [],
})

declare module '../base/events.ts' {
  interface EventMap {
    /** What guards the money of running calls and the end of the ledger cannot be written. */
    'checkpoint.failing': { error: unknown }
    'checkpoint.recovered': object
  }
}

/**
 * Returns the work that writes what the running answers have cost so far, for recovery after a
 * crash, and where the ledger ends. It says when it fails first, and when it is done again.
 */
export function createCheckpoint(world: InferenceWorld & { events: Events }): () => Promise<void> {
  let isFailing = false
  return async () => {
    try {
      await world.journal.holds.updateSpent(world.traffic.calls.listProgress())
      await markEnds(world)
      if (isFailing) world.events.publish('checkpoint.recovered', {})
      isFailing = false
    } catch (error) {
      if (!isFailing) world.events.publish('checkpoint.failing', { error })
      isFailing = true
    }
  }
}

/**
 * Writes what calls came to that could not be recorded into the journal, so that the next start
 * charges exactly that. Returns how many calls there were.
 */
export async function keepUnrecorded({
  recorder,
  journal: { holds },
}: Pick<InferenceWorld, 'recorder' | 'journal'>): Promise<number> {
  const byId = Map.groupBy(
    recorder.listPending(),
    ({ generation, charge }) => generation?.id ?? charge?.id,
  )
  const journaled = holds.listCalls()
  const unrecorded = [...byId].flatMap(([id, entries]) =>
    toHeldCalls(
      entries,
      journaled.filter(held => held.id === id),
    ),
  )
  await holds.updateSpent(unrecorded.map(held => ({ held, spent: held.nanos })))
  return unrecorded.length
}

/**
 * Returns a call as the journal keeps it: each inner step for itself, and all that its other
 * unrecorded steps came to together.
 */
function toHeldCalls(entries: RecorderEntry[], journaled: HeldCall[]): HeldCall[] {
  const charges = entries.flatMap(({ charge }) => charge ?? [])
  const findInner = ({ step }: StepCharge) =>
    journaled.find(held => held.inner && held.step === step)
  const inner = charges.flatMap(charge => {
    const held = findInner(charge)
    return held ? [{ ...held, nanos: charge.nanos, spent: NOT_WRITTEN }] : []
  })
  const others = charges.filter(charge => !findInner(charge))
  const running = journaled.find(held => !held.inner)
  return [...inner, ...toHeldCall(entries, others, running)]
}

/** None where nothing is charged. A call whose end is not among them is known from the journal. */
function toHeldCall(
  entries: RecorderEntry[],
  charges: StepCharge[],
  running: HeldCall | undefined,
): HeldCall[] {
  const generation = entries.find(entry => entry.generation)?.generation ?? running
  const charge = charges.at(-1)
  if (!generation || !charge) return []
  const { key_hash, user_id, workspace_id, subaccounts, id, byok } = charge
  const nanos = sumCharges(charges)
  const step = Math.max(...charges.map(one => one.step))
  const { request_id, created_at, api_type, model, streamed, batch_id } = generation
  const batch = batch_id === null || batch_id === undefined ? {} : { batch_id }
  const call = {
    id,
    ...batch,
    request_id,
    created_at,
    api_type,
    model,
    streamed,
    step,
    byok,
    nanos,
  }
  const parts = subaccounts ? { subaccounts } : {}
  return [{ key_hash, user_id, workspace_id, ...parts, ...call, spent: NOT_WRITTEN }]
}

/** No call has spent this, so that the line is written whatever it came to. */
const NOT_WRITTEN = -1n

/**
 * Writes where the ledger and the log of seals end, beside the store, if they have grown. What was
 * written stays where it is missing, altered or no longer in the store: it is the proof, until the
 * operator has accepted it.
 */
export async function markEnds(world: EndsWorld): Promise<void> {
  const { store, journal } = world
  if (!journal.head.isKept) return
  const ends = await readEnds(store)
  const written = journal.head.read()
  const isUnchanged = written !== null && isSame(written, ends)
  if (isUnchanged && journal.head.examine() === 'genuine') return
  if ((await listEndProblems(world)).length === 0) journal.head.write(ends)
}

/** Writes where the ledger and the log of seals end, whatever was written before. */
export const rewriteEnds = async ({ store, journal: { head } }: EndsWorld): Promise<void> =>
  head.isKept ? head.write(await readEnds(store)) : undefined

/** Writes the ends of a new store, so that a missing file always means that it was removed. */
export async function markOpening(world: EndsWorld): Promise<void> {
  const { store, journal } = world
  if (!journal.head.isKept || journal.head.examine() !== 'missing') return
  const [newest, opening, last] = [
    await store.seals.readHead(),
    await store.seals.readOpening(),
    await store.ledger.readHead(),
  ]
  const isNew = !newest || (newest.n === 1 && (last?.seq ?? 0) <= (opening?.ledger.seq ?? 0))
  if (isNew) await rewriteEnds(world)
}

/** What keeps the ends. */
export interface EndsWorld {
  store: Pick<InferenceWorld['store'], 'ledger' | 'seals'>
  journal: Pick<InferenceWorld['journal'], 'head'>
}

const readEnds = async ({ ledger, seals }: EndsWorld['store']): Promise<Ends> => ({
  ledger: (await ledger.readHead()) ?? { seq: 0, hash: '' },
  seals: await seals.readHead(),
})

const isSame = (a: Ends, b: Ends): boolean =>
  a.ledger.seq === b.ledger.seq && a.ledger.hash === b.ledger.hash && a.seals?.n === b.seals?.n

/**
 * Lists what contradicts the ends that were written, if anything does: SQLite drops the tail of a
 * damaged log silently, and the file itself can be removed or altered.
 */
export async function listEndProblems({ store, journal: { head } }: EndsWorld): Promise<string[]> {
  if (!head.isKept) return []
  const written = head.read()
  const state = await judgeHead({ store, journal: { head } }, written)
  if (!written || state !== 'genuine') return [`ledger.head is ${state}: the end is not known`]
  const last = (await store.ledger.readHead())?.seq ?? 0
  const { ledger, seals } = written
  return [
    ...((await store.ledger.has(ledger))
      ? []
      : [`rows are missing at the end: ${ledger.seq} were written, the last is ${last}`]),
    ...(seals === null || (await store.seals.has(seals))
      ? []
      : ['the store is an earlier state of itself: changes are missing at the end']),
  ]
}

// With another secret no seal can be judged: that is found elsewhere.
async function judgeHead(
  { store, journal: { head } }: EndsWorld,
  written: Ends | null,
): Promise<'genuine' | 'missing' | 'altered'> {
  const state = head.examine()
  if (state === 'missing') return 'missing'
  if (!written) return 'altered'
  return state === 'altered' && (await store.seals.readOpening()) ? 'altered' : 'genuine'
}

/**
 * Throws where something contradicts the ends that were written: a server that went on would write
 * over the only proof.
 */
export async function verifyLedgerEnd(world: EndsWorld): Promise<void> {
  const problems = await listEndProblems(world)
  if (problems.length === 0) return
  throw new Error(
    `${problems.join('; ')}. Restore a backup, or accept what is there: ` +
      "gateway doctor --accept --reason '...'",
  )
}
