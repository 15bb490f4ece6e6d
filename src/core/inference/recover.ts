import { dayOf } from '../kernel/clock.ts'
import type { HeldCall, StepCharge } from '../ledger/ledger.ts'
import type { Generation } from '../telemetry/generations.ts'
import type { InferenceWorld } from './world.ts'

/**
 * Settles the calls that a dead process left, each once: their clients got no end, but providers
 * were called. A call costs what its settled steps were charged. Its last step costs its prompt and
 * what it was known to have delivered, unless that is in the ledger too. The record says
 * `estimated`. May only run with the lock of the data directory. Returns how many calls there were.
 */
export async function recover(gateway: InferenceWorld): Promise<number> {
  const left = await deadCalls(gateway)
  await Promise.all(left.map(held => settleDead(gateway, held)))
  gateway.journal.holds.clear()
  return left.length
}

/** Lists the calls that are in the journal but not on record. */
export async function deadCalls({
  journal: { holds },
  store,
}: InferenceWorld): Promise<HeldCall[]> {
  const left = await Promise.all(
    holds.left().map(async held => ((await store.generations.byId(held.id)) ? [] : held)),
  )
  return left.flat()
}

async function settleDead(gateway: InferenceWorld, held: HeldCall): Promise<void> {
  const settled = gateway.clock.now()
  const before = await gateway.store.ledger.charges(held.id)
  const isCharged = before.some(({ step }) => step === held.step)
  const charge = isCharged ? null : deadCharge(held, settled)
  const charges = charge ? [...before, charge] : before
  await gateway.recorder.record({ generation: deadGeneration(held, charges, settled), charge })
  if (charge) gateway.ledger.charge(charge)
}

function deadCharge(held: HeldCall, settled: Date): StepCharge {
  const { key_hash, user_id, workspace_id, id, step, byok, spent: nanos } = held
  const when = { day: dayOf(settled), settled_at: settled.toISOString() }
  return { key_hash, user_id, workspace_id, id, step, byok, nanos, ...when, source: 'estimated' }
}

const sumOf = (charges: Pick<StepCharge, 'nanos'>[]) =>
  charges.reduce((sum, { nanos }) => sum + nanos, 0n)

const deadGeneration = (
  { nanos: _, spent: __, step: ___, byok, ...call }: HeldCall,
  charges: Pick<StepCharge, 'byok' | 'nanos'>[],
  settled: Date,
): Generation => ({
  ...call,
  is_byok: byok,
  total_cost: sumOf(charges.filter(charge => !charge.byok)),
  upstream_inference_cost: sumOf(charges),
  settled_at: settled.toISOString(),
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
  contentFilters: [],
})

/**
 * Writes what the running answers have cost so far, for recovery after a crash, and where the
 * ledger ends.
 */
export async function checkpoint(gateway: InferenceWorld): Promise<void> {
  try {
    gateway.journal.holds.progress(gateway.traffic.calls.progress())
    await markEnd(gateway)
  } catch {
    // The recorder reports a disk that fails.
  }
}

/** Writes where the ledger ends, beside the store, if it has grown. */
export async function markEnd({ store, journal: { head } }: InferenceWorld): Promise<void> {
  const last = await store.ledger.head()
  if (last && last.seq > (head.read()?.seq ?? 0)) head.write(last)
}

/**
 * Throws if rows are missing at the end of the ledger: a damaged log loses its tail silently, and
 * with it what was spent.
 */
export async function mustBeWhole({ store, journal: { head } }: InferenceWorld): Promise<void> {
  const written = head.read()
  const last = await store.ledger.head()
  if (!written || (last && last.seq >= written.seq)) return
  throw new Error(
    `The ledger ends at row ${last?.seq ?? 0}, but ${written.seq} were written: ` +
      'restore a backup, or remove ledger.head to go on without them',
  )
}
