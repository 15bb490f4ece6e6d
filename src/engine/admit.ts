import { denied, GatewayError, invalid, unauthenticated, unavailable } from '../base/errors.ts'
import type { CallBase } from '../language/call.ts'
import type { Kind } from '../language/work.ts'
import { addBounds } from '../limits/call-budgets.ts'
import type { Counters, Grant } from '../limits/counters.ts'
import { getPolicy } from '../limits/effective.ts'
import type { Rate, RateClaim, RateGrant } from '../limits/rates.ts'
import type { Actor } from '../resources/actor.ts'
import { isUsable } from '../resources/keys/mirror.ts'
import { FILE, getFacts, OTHER } from '../translation/tokenizers/prompt.ts'
import type { KindOfWork } from './kind.ts'
import { kinds } from './kinds.ts'
import { NEEDS, type Run } from './run.ts'
import type { InferenceWorld } from './world.ts'

/** Returns nothing, or throws what stops the call. */
type Check = (world: InferenceWorld, run: Run) => void

/** What a call has of the counters. */
type Taken = Pick<Run, 'grant' | 'rateGrant'>

/** Everything that may stop a call before it is planned. */
const CHECKS: Check[] = [
  checkMayInfer,
  checkHops,
  checkKey,
  checkCounts,
  checkNotDraining,
  checkCanRecord,
  checkRegion,
]

/**
 * Checks whether this call may be made at all, and now. Throws 403 for a management key or a region
 * that a guardrail does not allow, 401 for a key that is no longer valid, 400 for a
 * count that providers could read in different ways and for a call that goes in circles, 503 while the gateway
 * stops or cannot write, and 429 above a rate limit. The rate limit comes last: a refused call is
 * not counted. A promise only while other nodes have to be asked for what the call takes.
 */
export function admitRun(world: InferenceWorld, run: Run): void | Promise<void> {
  for (const check of CHECKS) check(world, run)
  const { counters } = world.traffic
  const { actor, call, policy } = run
  if (run.isDry) {
    counters.check(actor, call)
    if (policy.rates) counters.rates.check(policy.rates)
  } else {
    const isInBatch = call.origin.batch_id !== undefined
    const claim: CallClaim = { actor, call, isInBatch, request: true, place: true }
    if (policy.rates) return admitRated(run, policy.rates, counters, claim)
    const grant = counters.take(claim)
    if (grant instanceof Promise) return awaitGrant(run, grant)
    run.grant = grant
  }
}

/** Keeps a grant that other nodes were asked for. */
async function awaitGrant(taken: Taken, grant: Promise<Grant>): Promise<void> {
  taken.grant = await grant
}

/** What a call takes when it is admitted. */
interface CallClaim extends RateClaim {
  actor: Actor
  call: Pick<CallBase, 'models'>
  request: true
}

/** Takes what all calls take and what guardrails count besides, or nothing. */
function admitRated(
  taken: Taken,
  rates: Rate[],
  counters: Counters,
  claim: CallClaim,
): void | Promise<void> {
  const rateGrant = counters.rates.take(rates, claim)
  if (rateGrant instanceof Promise) return awaitRated(taken, rateGrant, counters, claim)
  try {
    const grant = counters.take(claim)
    if (grant instanceof Promise) return awaitRated(taken, rateGrant, counters, claim, grant)
    taken.grant = grant
    taken.rateGrant = rateGrant
  } catch (thrown) {
    counters.rates.give(rateGrant, true)
    throw thrown
  }
}

/** Takes both where other nodes are asked for one of them. */
async function awaitRated(
  taken: Taken,
  rated: RateGrant | Promise<RateGrant>,
  counters: Counters,
  claim: CallClaim,
  grant?: Promise<Grant>,
): Promise<void> {
  const rateGrant = await rated
  try {
    taken.grant = await (grant ?? counters.take(claim))
    taken.rateGrant = rateGrant
  } catch (thrown) {
    counters.rates.give(rateGrant, true)
    throw thrown
  }
}

/**
 * Counts a request that is no call of a model: against the rates of its key, and of guardrails.
 * Resolves with what gives its place back, if it needs one. Throws 429 above a rate limit.
 */
export async function admitRequest(
  world: InferenceWorld,
  actor: Actor,
  place = true,
): Promise<() => void> {
  const { counters } = world.traffic
  const { rates } = getPolicy(world, actor)
  const taken: Taken = { grant: null, rateGrant: null }
  const claim: CallClaim = {
    ...{ actor, call: { models: [] }, isInBatch: false },
    ...{ request: true, place },
  }
  if (rates) await admitRated(taken, rates, counters, claim)
  else taken.grant = await counters.take(claim)
  return () => {
    if (taken.grant) counters.give(taken.grant)
    if (taken.rateGrant) counters.rates.give(taken.rateGrant, false)
  }
}

/** Lists a call as running. */
export function listRun({ traffic }: InferenceWorld, run: Run): void {
  if (!run.isDry) run.unlist = traffic.calls.add(run)
}

/**
 * Checks the key again and reloads the policy: a slow body, filters and earlier steps take time,
 * and a deleted key takes its limit along. Throws 401 for a key that is no longer valid.
 */
export function recheckRun(world: InferenceWorld, run: Run): void {
  checkKey(world, run)
  run.policy = getPolicy(world, run.actor)
  if (run.callBounds) run.policy = addBounds(run.policy, run.callBounds)
}

/** Ends the loops of keys that are no longer valid: many turns could follow otherwise. */
export function endLoopsOfGoneKeys({
  memory: { keys },
  traffic,
  clock,
}: Pick<InferenceWorld, 'memory' | 'traffic' | 'clock'>): void {
  const isGone = (hash: string) => {
    const key = keys.get(hash)
    return !key || !isUsable(key, clock.now())
  }
  traffic.calls.endLoops(isGone, unauthenticated('Invalid API key'))
}

function checkMayInfer(_: InferenceWorld, { actor }: Run): void {
  if (actor.kind === 'management') throw denied('Management keys cannot be used for inference')
}

/** Gateways that one call may come through: more are a provider that leads back to one of them. */
const MOST_HOPS = 3

function checkHops(_: InferenceWorld, { call }: Run): void {
  if ((call.origin.hops ?? 0) < MOST_HOPS) return
  const message = `The call has come through ${MOST_HOPS} gateways: a provider’s base_url leads back`
  throw invalid(message, 'base_url')
}

// Money depends on these counts, whichever dialect, preset or plugin they come from. Throws 400.
function checkCounts<K extends Kind>(_: InferenceWorld, { kind, call }: Run<K>): void {
  const { understanding }: KindOfWork<K> = kinds[kind]
  understanding.checkCounts(call)
}

// Throws 401.
function checkKey({ memory: { keys }, clock }: InferenceWorld, { actor: { key_hash } }: Run): void {
  if (key_hash === null) return
  const key = keys.get(key_hash)
  if (!key || !isUsable(key, clock.now())) throw unauthenticated('Invalid API key')
}

function checkNotDraining({ traffic }: InferenceWorld): void {
  if (traffic.calls.closed) throw unavailable('The gateway is shutting down')
}

function checkCanRecord({ recorder }: InferenceWorld): void {
  if (!recorder.healthy) throw unavailable('The gateway cannot record calls at the moment')
}

function checkRegion(_: InferenceWorld, { call, policy: { regions } }: Run): void {
  const { region } = call.origin
  if (regions.includes(region)) return
  const expected = regions.length === 0 ? 'none' : regions.join(' or ')
  throw new GatewayError(
    'permission_denied',
    `allowed_data_regions of guardrails: expected ${expected}, found the ${region} region`,
    {
      metadata: {
        excluded_by: ['data_region'],
        availability: { code: 'region_restricted', retryable: false },
      },
    },
  )
}

/** Reads what a run needs that a plain one does not: 0 for most. */
export function readNeeds({ catalog, config }: InferenceWorld, { call, policy }: Run): number {
  let needs = 0
  if (call.plugins !== undefined) needs |= NEEDS.plugins
  if (policy.filters) needs |= NEEDS.filters
  if (hasDefaults(config.plugins)) needs |= NEEDS.defaults
  for (const slug of call.models)
    if (slug.includes(':') || !catalog.models.has(slug)) needs |= NEEDS.names
  if (call.kind === 'video') needs |= NEEDS.job
  if (call.kind !== 'text') return needs
  const { params, serverTools, messages } = call
  if (serverTools !== undefined || typeof params.tool_choice === 'object') needs |= NEEDS.tools
  if (params.web_search_options !== undefined) needs |= NEEDS.search
  return getFacts(messages).features & (FILE | OTHER) ? needs | NEEDS.files : needs
}

function hasDefaults({ defaults = [], workspaces }: InferenceWorld['config']['plugins']): boolean {
  for (const _ in workspaces) return true
  return defaults.length > 0
}
