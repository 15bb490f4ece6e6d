import { toDayNumber } from '../kernel/clock.ts'
import type { Ends } from '../ledger/chain.ts'
import type { HeldCall, StepCharge } from '../ledger/ledger.ts'
import type { Generation } from '../telemetry/generations.ts'
import type { RecorderEntry } from '../telemetry/recorder.ts'
import type { InferenceWorld } from './world.ts'

/**
 * Settles the calls that a dead process left, each once: their clients got no end, but providers
 * were called. A call costs what its settled steps were charged. Its last step costs its prompt and
 * what it was known to have delivered, unless that is in the ledger too. The record says
 * `estimated`. May only run with the lock of the data directory. Returns how many calls there were.
 */
export async function recoverCalls(world: InferenceWorld): Promise<number> {
  const deadCalls = await listDeadCalls(world)
  await Promise.all(deadCalls.map(steps => settleDeadCall(world, steps)))
  world.journal.holds.clear()
  return deadCalls.length
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
  const unrecorded = await Promise.all(
    [...byId].map(async ([id, steps]) =>
      open.has(id) || (await store.generations.byId(id)) ? [] : [sortSteps(steps)],
    ),
  )
  return unrecorded.flat()
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
  const last = uncharged.at(-1) === heldCall ? (charges.at(-1) ?? null) : null
  for (const charge of charges)
    if (charge !== last) await world.recorder.record({ generation: null, charge })
  await world.recorder.record({
    generation: toDeadGeneration(heldCall, [...previous, ...charges], settledAt),
    charge: last,
  })
  for (const charge of charges) world.ledger.charge(charge)
}

function toDeadCharge(heldCall: HeldCall, settledAt: Date): StepCharge {
  const { key_hash, user_id, workspace_id, id, step, byok, spent: nanos } = heldCall
  const time = { day: toDayNumber(settledAt), settled_at: settledAt.toISOString() }
  return { key_hash, user_id, workspace_id, id, step, byok, nanos, ...time, source: 'estimated' }
}

const sumCharges = (charges: Pick<StepCharge, 'nanos'>[]) =>
  charges.reduce((sum, { nanos }) => sum + nanos, 0n)

const toDeadGeneration = (
  { nanos: _, spent: __, step: ___, inner: ____, byok, ...call }: HeldCall,
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
  provider_name: null,
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
  data_region: 'global',
  router: null,
  response_cache_source_id: null,
  contentFilters: [],
  steps: [],
})

/**
 * Writes what the running answers have cost so far, for recovery after a crash, and where the
 * ledger ends.
 */
export async function writeCheckpoint(world: InferenceWorld): Promise<void> {
  try {
    world.journal.holds.updateSpent(world.traffic.calls.listProgress())
    await markEnds(world)
  } catch {
    // The recorder reports a disk that fails.
  }
}

/**
 * Writes what calls came to that could not be recorded into the journal, so that the next start
 * charges exactly that. Returns how many calls there were.
 */
export function keepUnrecorded({ recorder, journal: { holds } }: InferenceWorld): number {
  const unrecorded = recorder.listPending().flatMap(toHeldCall)
  holds.updateSpent(unrecorded.map(held => ({ held, spent: held.nanos })))
  return unrecorded.length
}

/** Returns the last step of an ended call as the journal keeps it; none where nothing is charged. */
function toHeldCall({ generation, charge }: RecorderEntry): HeldCall[] {
  if (!generation || !charge) return []
  const { key_hash, user_id, workspace_id, id, step, byok, nanos } = charge
  const { request_id, created_at, api_type, model, streamed, batch_id } = generation
  const batch = batch_id === null ? {} : { batch_id }
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
  return [{ key_hash, user_id, workspace_id, ...call, spent: NOT_WRITTEN }]
}

/** No call has spent this, so that the line is written whatever it came to. */
const NOT_WRITTEN = -1n

/**
 * Writes where the ledger and the log of seals end, beside the store, if they have grown. They have
 * not if the last written ends are no longer in them: then rows were replaced, and the file stays
 * as the proof.
 */
export async function markEnds({ store, journal: { head } }: EndsWorld): Promise<void> {
  if (!head.isKept) return
  const [written, ends] = [head.read(), await readEnds(store)]
  if (written && (isSame(written, ends) || !(await hasEnds(store, written)))) return
  head.write(ends)
}

/** Writes where the ledger and the log of seals end, whatever was written before. */
export const rewriteEnds = async ({ store, journal: { head } }: EndsWorld): Promise<void> =>
  head.isKept ? head.write(await readEnds(store)) : undefined

/** Writes the ends of a new store, so that a missing file always means that it was removed. */
export async function markOpening(world: EndsWorld): Promise<void> {
  const { store, journal } = world
  if (!journal.head.isKept || journal.head.read()) return
  const newest = await store.seals.readHead()
  if (!newest || newest.n === 1) await markEnds(world)
}

/** What keeps the ends. */
interface EndsWorld {
  store: Pick<InferenceWorld['store'], 'ledger' | 'seals'>
  journal: Pick<InferenceWorld['journal'], 'head'>
}

const readEnds = async ({ ledger, seals }: EndsWorld['store']): Promise<Ends> => ({
  ledger: (await ledger.readHead()) ?? { seq: 0, hash: '' },
  seals: await seals.readHead(),
})

const isSame = (a: Ends, b: Ends): boolean =>
  a.ledger.seq === b.ledger.seq && a.seals?.n === b.seals?.n

/** Whether the ledger and the log of seals still pass through these ends. */
const hasEnds = async ({ ledger, seals }: EndsWorld['store'], ends: Ends): Promise<boolean> =>
  (await ledger.has(ends.ledger)) && (ends.seals === null || (await seals.has(ends.seals)))

/**
 * Throws if rows are missing at the end of the ledger: a damaged log loses its tail silently, and
 * with it what was spent.
 */
export async function verifyLedgerEnd({ store, journal: { head } }: InferenceWorld): Promise<void> {
  const written = head.read()?.ledger
  const last = await store.ledger.readHead()
  if (!written || (last?.seq ?? 0) >= written.seq) return
  throw new Error(
    `The ledger ends at row ${last?.seq ?? 0}, but ${written.seq} were written: ` +
      'restore a backup, or remove ledger.head to go on without them',
  )
}
