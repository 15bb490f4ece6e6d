import { yieldToEventLoop } from '../base/clock.ts'
import { GatewayError } from '../base/errors.ts'
import { pickLarger, roundUpToNanos, toAttos, toHeldNanos } from '../base/money.ts'
import type { Config } from '../config.ts'
import { createTextUsage, sumUnits, type Usage } from '../language/usage.ts'
import type { Kind, Work } from '../language/work.ts'
import { type CallBudget, keepModel } from '../limits/call-budgets.ts'
import type { Grant } from '../limits/counters.ts'
import type { Amounts, CostEstimate, HeldCall, Hold, Payer } from '../limits/ledger.ts'
import type { Rate, TokenHold } from '../limits/rates.ts'
import type { Endpoint } from '../resources/models/catalog.ts'
import {
  computeHighestPrices,
  computeInputCost,
  priceLargestInput,
  priceUnits,
} from '../resources/prices.ts'
import type { ExpectedInput } from '../translation/tokenizers/prompt.ts'
import type { Costing } from './kind.ts'
import { kinds } from './kinds.ts'
import type { ResolvedModel } from './plan/candidates.ts'
import { explainShortage } from './reserve/budgets.ts'
import { isShortage, takeWhenFree, useLeast } from './reserve/waiting.ts'
import type { Outrun, Run, Step } from './run.ts'
import { nameBound, type Tree } from './tree.ts'
import type { InferenceWorld } from './world.ts'

/**
 * Takes what a step needs of its key, if there is an endpoint to try: money for what it may cost, and
 * of a turn within others its request and its place too. Drops the endpoints that the limits cannot
 * pay. A dry run only computes the amounts. Waits for what other calls hold, and throws 402 if a
 * limit has not enough left; it says what would be set aside, what is left and what would fit. Throws `TreeEnded` if a turn within others
 * finds nothing left, and 429.
 */
export function reserveStep<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  isOpen = false,
): void | Promise<void> {
  const { run, plan, call } = step
  const isDry = run.isDry
  if (run.policy.budgets && !isOpen) return reserveBudgeted(world, step, run.policy.budgets)
  if (run.tree && !isDry) return takeTurn(world, step, run.tree)
  if (!plan || plan.endpoints.length === 0 || (run.actor.key_hash === null && !isDry)) return
  const { actor, policy } = run
  const { bounds } = policy
  const estimate = estimateCost(world, run.kind, call, plan.endpoints, plan.models)
  step.costEstimate = estimate
  if (policy.rates && step.grant && !step.grant.tokens) {
    const tokens = takeTokens(world, step, step.grant, policy.rates)
    if (tokens) return tokens.then(() => reserveStep(world, step, isOpen))
  }
  try {
    if (isDry) step.amounts = world.ledger.computeGrant(estimate, bounds)
    else {
      const money = { payer: getPayer(run), estimate, bounds }
      const taken = world.traffic.counters.take({ actor, call, money, to: step.grant })
      if (taken instanceof Promise) return awaitAsked(world, step, estimate, taken)
      keepGrant(step, taken)
    }
  } catch (thrown) {
    if (!isShortage(thrown)) throw thrown
    return isDry
      ? takeLeast(world, step, estimate)
      : awaitMoney(world, step, waitForMoney(world, step, estimate))
  }
}

/** Awaits what has to be asked for, and where that is too little, what other calls give back. */
async function awaitAsked<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  estimate: CostEstimate,
  taking: Promise<Grant>,
): Promise<void> {
  const taken = await taking.catch(thrown => {
    if (isShortage(thrown)) return null
    throw thrown
  })
  if (taken) keepGrant(step, taken)
  else await awaitMoney(world, step, waitForMoney(world, step, estimate))
}

async function reserveBudgeted<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  budgets: CallBudget[],
): Promise<void> {
  const { run, call, plan } = step
  // Loaded with the first caller who has one.
  const { openStepBudgets } = await import('./reserve/budgets.ts')
  await openStepBudgets(world, step, budgets, endpoints =>
    estimateCost(world, run.kind, call, endpoints, plan?.models),
  )
  await reserveStep(world, step, true)
}

/** Takes the money of a step that found too little, as a call without tools does. */
const waitForMoney = <K extends Kind>(
  world: InferenceWorld,
  { run, call, grant }: Step<K>,
  estimate: CostEstimate,
): Promise<Grant> => {
  const { actor, policy } = run
  const { bounds } = policy
  return takeWhenFree(world, run as unknown as Run, estimate, other =>
    world.traffic.counters.take({
      ...{ actor, call, to: grant },
      money: { payer: getPayer(run), estimate: other, bounds },
    }),
  )
}

/** Computes what a dry run would take where too little is left for more. */
function takeLeast<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  estimate: CostEstimate,
): void {
  try {
    step.amounts = world.ledger.computeGrant(useLeast(estimate), step.run.policy.bounds)
  } catch (thrown) {
    throw explainRefusal(world, step, thrown)
  }
}

async function awaitMoney<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  taking: Promise<Grant>,
): Promise<void> {
  try {
    keepGrant(step, await taking)
  } catch (thrown) {
    throw explainRefusal(world, step, thrown)
  }
}

function keepGrant<K extends Kind>(step: Step<K>, grant: Grant): void {
  step.grant = grant
  const { plan } = step
  if (!grant.hold || !plan) return
  const { amounts } = grant.hold
  const endpoints = plan.endpoints.filter(endpoint => isPayable(amounts, endpoint))
  step.plan = { ...plan, endpoints }
}

/**
 * Begins a turn within a tree: once there is a place for it in the tree and among the calls of its
 * key, in their order. Nothing that waits here has a place of the key.
 */
async function takeTurn<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  tree: Tree,
): Promise<void> {
  const { run } = step
  const isRoot = run.within === null
  const estimate = estimateTurn(world, step)
  try {
    step.turn = await tree.enter(
      { isRoot, nanos: estimate?.maximum.own ?? 0n, tokens: countMostTokens(world, step) },
      run.cancellation,
    )
    // Others get their turn before each of the turns within a call.
    if (!isRoot) await yieldToEventLoop()
    keepGrant(step, await takeGrant(world, step, tree, estimate))
    const { rates } = run.policy
    if (rates && step.grant) await takeTokens(world, step, step.grant, rates)
  } catch (thrown) {
    if (step.turn) tree.leave(step.turn)
    const bound = nameBound(GatewayError.from(thrown))
    if (bound !== null) tree.end(bound)
    throw explainRefusal(world, step, thrown)
  }
}

/**
 * Takes the tokens that a turn is expected to take, where guardrails limit those of a minute. Gives
 * its grant back where too few are left.
 */
function takeTokens<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  grant: Grant,
  rates: Rate[],
): void | Promise<void> {
  if (!rates.some(rate => rate.tokens_per_minute)) return
  const isBatch = isInBatch(step.run as unknown as Run)
  const { counters } = world.traffic
  const keep = (tokens: TokenHold) => {
    grant.tokens = tokens
  }
  const giveUp = (thrown: unknown): never => {
    counters.give(grant, { isUnmade: true })
    throw thrown
  }
  try {
    const tokens = counters.rates.takeTokens(rates, estimateTokens(world, step), isBatch)
    if (tokens instanceof Promise) return tokens.then(keep, giveUp)
    keep(tokens)
  } catch (thrown) {
    giveUp(thrown)
  }
}

/**
 * Estimates the tokens of a turn: its prompt, and the output that it asks for. One that does not say
 * how much it wants is expected to take little, as most do, and pays the rest when it has ended.
 */
function estimateTokens<K extends Kind>(
  { config }: InferenceWorld,
  { run: { kind }, call, plan }: Step<K>,
): number {
  const { estimateInput, boundOutput }: Costing<K> = kinds[kind].costing
  const { text, audio, video } = estimateInput(call)
  const isBounded = call.kind !== 'text' || call.params.max_tokens !== undefined
  const outputs = (plan?.endpoints ?? []).map(endpoint => {
    const most = boundOutput(call, endpoint) ?? config.limits.max_tokens
    return isBounded ? most : Math.min(most, USEFUL_OUTPUT)
  })
  return Math.ceil(text + audio + video + Math.max(0, ...outputs))
}

/** Takes what a turn needs: the first one of a call has its request and its place already. */
async function takeGrant<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  tree: Tree,
  estimate: CostEstimate | null,
): Promise<Grant> {
  const { counters } = world.traffic
  const { run } = step
  const isRoot = run.within === null
  const instead = isRoot ? tree.kept : null
  if (isRoot) tree.kept = null
  // Its own request was counted when the turn before it began.
  const request = !isRoot || run.toolLoop === null
  const claim = { actor: run.actor, call: run.call, isInBatch: isInBatch(run) }
  const take = (amounts: CostEstimate | null) => {
    const money = amounts && {
      ...{ payer: getPayer(run), estimate: amounts, bounds: run.policy.bounds },
    }
    return step.grant
      ? counters.take({ ...claim, money, to: step.grant })
      : counters.takeInTurn({ ...claim, money, request, instead }, run.cancellation)
  }
  try {
    return await take(estimate)
  } catch (thrown) {
    // What waits for a place, or for other nodes, has not given it back yet.
    if (instead) counters.give(instead)
    if (!estimate || !isShortage(thrown)) throw thrown
    // What a turn within the call lacks may be held by the call itself.
    return isRoot
      ? takeWhenFree(world, run as unknown as Run, estimate, take)
      : take(useLeast(estimate))
  }
}

const isInBatch = ({ call }: Run): boolean => call.origin.batch_id !== undefined

/** Estimates what a turn may cost; null if no key pays, or no endpoint can be tried. */
function estimateTurn<K extends Kind>(world: InferenceWorld, step: Step<K>): CostEstimate | null {
  const { run, plan, call } = step
  if (!plan || plan.endpoints.length === 0 || run.actor.key_hash === null) return null
  // A call that has begun goes on with a shorter answer rather than end without one.
  const isFollowUp = run.within === null && run.toolLoop !== null && run.steps.length > 1
  step.costEstimate = estimateCost(
    isFollowUp ? { config: makeStrict(world.config) } : world,
    run.kind,
    call,
    plan.endpoints,
    plan.models,
  )
  return step.costEstimate
}

const makeStrict = (config: Config): Config => ({
  ...config,
  limits: { ...config.limits, strict: true },
})

/** Counts the most tokens that a turn may take. */
function countMostTokens<K extends Kind>(
  { config }: InferenceWorld,
  { run: { kind }, call, plan }: Step<K>,
): number {
  const { boundInput, boundOutput }: Costing<K> = kinds[kind].costing
  const { text, audio, video } = boundInput(call)
  const outputs = (plan?.endpoints ?? []).map(
    endpoint => boundOutput(call, endpoint) ?? config.limits.max_tokens,
  )
  return text + audio + video + Math.max(0, ...outputs)
}

/**
 * Sets aside what the turn after tools that ask models costs at least, as far as it is known: what
 * they spend leaves that. As much as the limits can pay, or nothing.
 */
export async function keepNextTurn(world: InferenceWorld, run: Run, room: number): Promise<void> {
  const { step, tree } = run
  if (!step?.plan || !tree || run.actor.key_hash === null) return
  const { endpoints, models } = step.plan
  const call = addRoom(step.call, room)
  const estimate = estimateCost(
    { config: makeStrict(world.config) },
    run.kind,
    call,
    endpoints,
    models,
  )
  const money = { payer: getPayer(run), estimate, bounds: run.policy.bounds }
  try {
    tree.kept = await world.traffic.counters.take({ actor: run.actor, call: run.call, money })
  } catch (thrown) {
    if (!isShortage(thrown)) throw thrown
  }
}

/** Returns the call with so many characters more: the results that are still to come. */
const addRoom = (call: Work[Kind]['call'], characters: number): Work[Kind]['call'] =>
  call.kind === 'text'
    ? {
        ...call,
        messages: [
          ...call.messages,
          { role: 'user', blocks: [{ type: 'text', text: ' '.repeat(characters) }] },
        ],
      }
    : call

/**
 * Sets aside what the slower one of two endpoints costs that are tried side by side: its prompt, for
 * it has answered nothing. Writes that to the journal. Returns whether the limits pay for it, and that
 * could be written.
 */
export async function stakeHedge<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
): Promise<boolean> {
  const run = step.run as unknown as Run
  const { actor, call, policy } = run
  if (step.outrun) return true
  const grants = { grant: null, journalEntry: null, receipt: null }
  const outrun: Outrun = { run, number: 0, ...grants, isSettled: false, isCharged: false }
  if (actor.key_hash !== null) {
    const prompts = estimatePrompts(world, step)
    const estimate = { maximum: prompts, minimum: prompts }
    const payer = getPayer(run)
    const money = { payer, estimate, bounds: policy.bounds }
    try {
      outrun.grant = await world.traffic.counters.take({ actor, call, money })
    } catch (thrown) {
      if (isNotNow(thrown)) return false
      throw thrown
    }
    outrun.number = run.takeNumber()
    const nanos = prompts.own ?? prompts.byok ?? 0n
    const byok = prompts.own === null
    const spent = estimateDearestPrompt(step)
    const held = { step: outrun.number, byok, nanos, spent, inner: true as const }
    if (nanos > 0n)
      outrun.journalEntry = world.journal.holds.append(buildHeldCall(run, payer, held))
    try {
      await outrun.journalEntry?.written
    } catch (thrown) {
      outrun.journalEntry?.forget()
      world.traffic.counters.give(outrun.grant)
      if (isNotNow(thrown)) return false
      throw thrown
    }
  }
  step.outrun = outrun
  return true
}

// The endpoint that was asked first goes on alone.
const isNotNow = (thrown: unknown): boolean =>
  isShortage(thrown) || (thrown instanceof GatewayError && thrown.type === 'unavailable')

/** Estimates what the prompt costs where it costs most: of a killed process that is charged. */
function estimateDearestPrompt<K extends Kind>({ run, plan, call }: Step<K>): bigint {
  const costs = plan?.endpoints.map(endpoint =>
    estimatePromptNanos(run.kind, getEffectiveCall(plan.models, call, endpoint), endpoint),
  )
  return (costs ?? []).reduce(pickLarger, 0n)
}

/** Estimates the most that a prompt may cost at any endpoint of a step. */
function estimatePrompts<K extends Kind>(
  { config }: InferenceWorld,
  { run: { kind }, plan, call }: Step<K>,
): Amounts {
  const { boundInput }: Costing<K> = kinds[kind].costing
  const amounts: Amounts = { own: null, byok: null }
  for (const endpoint of plan?.endpoints ?? []) {
    const effectiveCall = getEffectiveCall(plan?.models ?? [], call, endpoint)
    const { prompt } = quoteCall(config, kind, effectiveCall, boundInput(effectiveCall), endpoint)
    raiseAmount(amounts, endpoint, roundUpToNanos(prompt))
  }
  return amounts
}

/** Who pays for a call. */
export function getPayer({
  actor: { key_hash, user_id, workspace_id },
  subaccounts,
}: Pick<Run, 'actor' | 'subaccounts'>): Payer {
  const payer: Payer = { key_hash: key_hash ?? '', user_id, workspace_id }
  if (subaccounts) payer.subaccounts = subaccounts
  return payer
}

// A function of its own, so that calls that can be paid make no closure.
const explainRefusal = <K extends Kind>(world: InferenceWorld, step: Step<K>, thrown: unknown) =>
  explainShortage(world, step, thrown, (way, nanos) =>
    computeFittingOutput(world, step, way, nanos),
  )

/** Tells whether the limits can pay for the endpoint. */
export const isPayable = (amounts: Amounts, { is_byok }: Endpoint): boolean =>
  (is_byok ? amounts.byok : amounts.own) !== null

/** Returns the call as the endpoint gets it. */
export function getEffectiveCall<K extends Kind>(
  models: ResolvedModel<K>[],
  call: Work[K]['call'],
  endpoint: Endpoint,
): Work[K]['call'] {
  for (const { model, effectiveCall } of models)
    if (model.id === endpoint.model) return effectiveCall
  return call
}

/**
 * Writes a step to the journal of holds, so that its cost survives a crash. The step must not be
 * sent before. Throws 503 and releases the hold if that fails.
 */
export function journalStep<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
): void | Promise<void> {
  const hold = step.grant?.hold
  step.heldCall = hold ? toHeldCall(step, hold) : null
  if (!step.heldCall) return
  step.journalEntry = world.journal.holds.append(step.heldCall)
  return awaitJournal(world, step)
}

async function awaitJournal({ traffic }: InferenceWorld, step: Step): Promise<void> {
  try {
    await step.journalEntry?.written
  } catch (thrown) {
    step.journalEntry?.forget()
    if (step.grant) traffic.counters.give(step.grant)
    if (step.turn) step.run.tree?.leave(step.turn)
    throw thrown
  }
}

/**
 * Returns the journal's entry of a step. Null for a step that costs nothing: there would be nothing
 * to recover.
 */
function toHeldCall<K extends Kind>(
  { run, number, call, plan }: Step<K>,
  { payer, amounts }: Hold,
): HeldCall | null {
  const nanos = amounts.own ?? amounts.byok ?? 0n
  const first = plan?.endpoints[0]
  if (!first || (nanos === 0n && !amounts.byok)) return null
  // What has only begun costs nothing if its end is never known.
  const spent = kinds[run.kind].beginsJob
    ? 0n
    : estimatePromptNanos(run.kind, getEffectiveCall(plan.models, call, first), first)
  return buildHeldCall(run, payer, { step: number, byok: first.is_byok, nanos, spent }, first)
}

/** Builds the journal's entry of a step of a run: by default at the model that has answered it. */
export function buildHeldCall<K extends Kind>(
  run: Run<K>,
  payer: Hold['payer'],
  {
    step,
    byok,
    nanos,
    spent,
    inner,
  }: Pick<HeldCall, 'step' | 'byok' | 'nanos' | 'spent' | 'inner'>,
  endpoint = run.step?.answer?.endpoint,
): HeldCall {
  const { call } = run
  const { region, batch_id } = call.origin
  const heldCall: HeldCall = {
    key_hash: payer.key_hash,
    user_id: payer.user_id,
    workspace_id: payer.workspace_id,
    id: call.id,
    request_id: call.origin.request_id,
    created_at: run.createdAt,
    api_type: kinds[run.kind].readApiType(call),
    model: endpoint?.model ?? call.models[0] ?? '',
    streamed: call.stream,
    step,
    byok,
    nanos,
    spent,
  }
  if (payer.subaccounts)
    heldCall.subaccounts = endpoint
      ? keepModel(payer.subaccounts, endpoint.model)
      : payer.subaccounts
  if (batch_id !== undefined) heldCall.batch_id = batch_id
  if (run.within || inner) heldCall.inner = true
  if (endpoint) heldCall.provider = endpoint.provider.name
  if (region !== 'global') heldCall.region = region
  return heldCall
}

/**
 * What a call may cost at one endpoint, in atto-dollars, and how many tokens of output it may have.
 */
interface Quote {
  /** Includes everything that does not depend on the output. */
  prompt: bigint
  perToken: bigint
  /** All the output that the call may have, what is useful of it, and the least that makes sense. */
  most: number
  useful: number
  least: number
}

/** The tokens of an answer, beside the least, with which most clients can do something. */
const USEFUL_OUTPUT = 256

/**
 * Estimates what a call may cost at its endpoints: the largest prompt and all the output that it
 * may have, each at the highest price that may apply. `models` hold the call as each model gets it.
 * With `limits.strict` a useful part of the output is enough, and less where no more will be left.
 */
export function estimateCost<K extends Kind>(
  { config }: Pick<InferenceWorld, 'config'>,
  kind: K,
  call: Work[K]['call'],
  endpoints: Endpoint[],
  models: ResolvedModel<K>[] = [],
): CostEstimate {
  const { boundInput }: Costing<K> = kinds[kind].costing
  const largestInput = boundInput(call)
  const estimate: CostEstimate = {
    maximum: { own: null, byok: null },
    minimum: { own: null, byok: null },
  }
  const { strict } = config.limits
  if (strict) estimate.least = { own: null, byok: null }
  for (const endpoint of endpoints) {
    const effectiveCall = getEffectiveCall(models, call, endpoint)
    const input = effectiveCall === call ? largestInput : boundInput(effectiveCall)
    const quote = quoteCall(config, kind, effectiveCall, input, endpoint)
    const { prompt, perToken, most, useful, least } = quote
    const whole = toHeldNanos(prompt, most, perToken)
    const enough = strict ? toHeldNanos(prompt, useful, perToken) : whole
    const smallest = estimate.least ? toHeldNanos(prompt, least, perToken) : whole
    raiseAmount(estimate.maximum, endpoint, whole)
    raiseAmount(estimate.minimum, endpoint, enough)
    if (estimate.least) raiseAmount(estimate.least, endpoint, smallest)
  }
  return estimate
}

/**
 * Estimates the usage of a call with this many tokens of output: the expected prompt, none of it
 * cached.
 */
export function estimateUsage<K extends Kind>(
  kind: K,
  call: Work[K]['call'],
  completion: number,
): Usage {
  const { estimateInput, estimateUnits }: Costing<K> = kinds[kind].costing
  const usage = createTextUsage(0, completion)
  const input = { ...usage.input, ...estimateInput(call) }
  const drawn = kinds[kind].costing.describeDrawn?.(call as never)
  return { ...usage, input, ...sumUnits(estimateUnits(call)), ...(drawn ? { drawn } : {}) }
}

/** Estimates what the prompt and its units cost, without the output. Nano-dollars. */
export function estimatePromptNanos<K extends Kind>(
  kind: K,
  call: Work[K]['call'],
  endpoint: Endpoint,
) {
  const { prices } = endpoint
  const { estimateInput, estimateUnits }: Costing<K> = kinds[kind].costing
  return prices ? computeInputCost(estimateInput(call), estimateUnits(call), prices) : 0n
}

/**
 * Returns the call with no more output than was set aside for it. A call under a limit always
 * carries the bound that its hold is made of: also if neither call nor endpoint bounds the output,
 * or the call asks for more than the endpoint gives. A limit that the provider is not sent is no
 * limit.
 */
export function limitToHold<K extends Kind>(
  { config }: InferenceWorld,
  kind: K,
  unlimited: Work[K]['call'],
  endpoint: Endpoint,
  { amounts }: Pick<Hold, 'amounts'>,
): Work[K]['call'] {
  const heldNanos = endpoint.is_byok ? amounts.byok : amounts.own
  if (heldNanos === null) return unlimited
  const { boundInput, limitOutput, limitUnits, needsOutputLimit }: Costing<K> = kinds[kind].costing
  const call = limitUnits(unlimited, endpoint)
  const { prompt, perToken, most, least } = quoteCall(
    config,
    kind,
    call,
    boundInput(call),
    endpoint,
  )
  if (perToken === 0n) return call
  const payable = (toAttos(heldNanos) - prompt) / perToken
  if (payable < BigInt(most)) return limitOutput(call, Math.max(Number(payable), least))
  return needsOutputLimit(call, endpoint) ? limitOutput(call, most) : call
}

/**
 * Computes the most output for which a limit with this much left would have let a call pass: at
 * every endpoint of the way that is short. Null where none would: the prompt costs too much, or the
 * output is not what costs.
 */
function computeFittingOutput<K extends Kind>(
  { config }: InferenceWorld,
  { run: { kind }, call, plan }: Step<K>,
  way: keyof Amounts,
  nanos: bigint,
): number | null {
  const { boundInput }: Costing<K> = kinds[kind].costing
  const endpoints = plan?.endpoints.filter(({ is_byok }) => is_byok === (way === 'byok')) ?? []
  const fitting = endpoints.map(endpoint => {
    const effectiveCall = getEffectiveCall(plan?.models ?? [], call, endpoint)
    const input = boundInput(effectiveCall)
    const { prompt, perToken, least } = quoteCall(config, kind, effectiveCall, input, endpoint)
    if (perToken === 0n) return prompt <= toAttos(nanos) ? Number.POSITIVE_INFINITY : 0
    const tokens = Number((toAttos(nanos) - prompt) / perToken)
    return tokens < least ? 0 : tokens
  })
  const most = Math.min(...fitting)
  return most > 0 && Number.isFinite(most) ? most : null
}

const FREE: Quote = { prompt: 0n, perToken: 0n, most: 0, useful: 0, least: 0 }

function quoteCall<K extends Kind>(
  { limits }: InferenceWorld['config'],
  kind: K,
  call: Work[K]['call'],
  input: ExpectedInput,
  endpoint: Endpoint,
): Quote {
  if (!endpoint.prices) return FREE
  const costing: Costing<K> = kinds[kind].costing
  const most = costing.boundOutput(call, endpoint) ?? limits.max_tokens
  const least = Math.min(costing.computeLeastOutput(call, endpoint), most)
  const units = costing.boundUnits(call, endpoint)
  const bounded = limitToContext(input, endpoint, costing.countPrompts(call))
  const tokens = bounded.text + bounded.audio + bounded.video
  const drawn = costing.describeDrawn?.(call, endpoint)
  const { prices } = endpoint
  const rates =
    prices.tiers || prices.variants ? computeHighestPrices(prices, tokens, drawn) : prices
  const surcharge = costing.priceSurcharge(call, rates)
  const perToken = costing.priceOutputToken(call, rates)
  // Each of several requests has the prompt again, but for those that divide it.
  const requests = BigInt(kinds[kind].splitCall?.(call as never, endpoint)?.length ?? 1)
  const prompt = priceLargestInput(bounded, rates) * requests + priceUnits(units, rates) + surcharge
  return { prompt, perToken, most, useful: Math.min(least + USEFUL_OUTPUT, most), least }
}

// No prompt is larger than the context, whatever it refers to.
function limitToContext(
  input: ExpectedInput,
  { context_length }: Endpoint,
  prompts: number,
): ExpectedInput {
  const { text, audio, video } = input
  const most = context_length === null ? Number.POSITIVE_INFINITY : context_length * prompts
  if (text <= most && audio <= most && video <= most) return input
  return { text: Math.min(text, most), audio: Math.min(audio, most), video: Math.min(video, most) }
}

/** No limit is that high; more would not fit the 64 bits of a hold in the journal. */
const MAX_NANOS = 2n ** 62n

function raiseAmount(amounts: Amounts, { is_byok }: Endpoint, nanos: bigint): void {
  const source = is_byok ? 'byok' : 'own'
  const amount = nanos < MAX_NANOS ? nanos : MAX_NANOS
  const known = amounts[source]
  if (known === null || amount > known) amounts[source] = amount
}
