import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../base/errors.ts'
import { toAttos } from '../base/money.ts'
import { SomeName } from '../base/schema-builders.ts'
import { compareTexts } from '../base/sorting.ts'
import { createTextUsage, type Usage } from '../language/usage.ts'
import type { Ledger, StepCharge } from '../limits/ledger.ts'
import type { Actor } from '../resources/actor.ts'
import { createAuditEntry } from '../resources/audit/entry.ts'
import type { Catalog, Endpoint } from '../resources/models/catalog.ts'
import { computeCost, type Prices, toExactPrices } from '../resources/prices.ts'
import type { IdentityWorld } from '../resources/world.ts'
import type { Generation, GenerationStore, RecorderEntry } from './generations/store.ts'
import { renderUsd } from './reconciliation.ts'
import { CORRECTION, parseDay } from './rollups.ts'

const Price = Type.Optional(Type.Number({ minimum: 0, maximum: 10_000 }))
const Day = Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', maxLength: 10 })

/**
 * Which calls are priced again, and how: prices in USD per million tokens, `request` per call. Those
 * with `was_` are what the calls on record were charged with.
 */
export const Repricing = Type.Object({
  model: SomeName,
  provider: SomeName,
  from: Day,
  to: Day,
  prompt: Price,
  completion: Price,
  cache_read: Price,
  reasoning: Price,
  request: Price,
  was_prompt: Price,
  was_completion: Price,
  was_cache_read: Price,
  was_reasoning: Price,
  was_request: Price,
})

export type Repricing = Static<typeof Repricing>

/** What pricing again needs from the gateway. */
export interface RepricingWorld extends IdentityWorld {
  catalog: Catalog
  ledger: Ledger
  store: IdentityWorld['store'] & { generations: GenerationStore }
  /** Locks the data directory against servers. Throws 409 while a server runs. */
  lock(): Promise<() => Promise<void>>
}

/** How calls of one kind are recorded whose cost follows from their tokens. */
const TOKEN_TYPES = new Set(['completions', 'responses', 'messages', 'embeddings'])
const DAY = 86_400_000
const AT_ONCE = 500

/** The calls of one account on one day. */
interface Group {
  day: string
  /** One of them, for what they have in common. */
  sample: Generation
  calls: number
  /** In nano-dollars: what is on record, with earlier corrections, and what it should be. */
  charged: bigint
  expected: bigint
}

/** What is to be corrected. */
interface Plan {
  groups: Group[]
  calls: number
  /** How many calls have a cost that does not follow from their tokens and the prices before. */
  left: number
}

/**
 * Finds out what the calls of a model at a provider would have cost at other prices, from the first
 * day to the last (UTC, both included, both over). Prices that are not given are those that are in
 * effect now. A call whose cost is not exactly what its tokens cost at the prices before stays as it
 * is: it has cache writes, sounds, searches or a free answer. Without prices before, only calls of
 * unknown cost are priced. Changes nothing. Throws 400 for days that are none, and for an unknown endpoint.
 */
export async function planRepricing(world: RepricingWorld, input: Repricing) {
  return showPlan(await buildPlan(world, input), false)
}

/**
 * Corrects what these calls were charged: for each account and day one entry of the ledger with the
 * difference, which counts on that day, with a record and an entry of the audit trail. No entry is
 * ever changed. All of it is one transaction. Where nothing differs, nothing is done: the same
 * correction cannot count twice. Throws what `planRepricing` does, and 409 while a server runs.
 */
export async function reprice(world: RepricingWorld, actor: Actor, input: Repricing) {
  const unlock = await world.lock()
  try {
    const plan = await buildPlan(world, input)
    if (plan.groups.length > 0) await correct(world, actor, input, plan)
    return showPlan(plan, plan.groups.length > 0)
  } finally {
    await unlock()
  }
}

async function correct(
  world: RepricingWorld,
  actor: Actor,
  input: Repricing,
  plan: Plan,
): Promise<void> {
  const id = `${CORRECTION}-${world.ids.uuid()}`
  const target = { id, workspace_id: null }
  const { total } = showPlan(plan, true)
  const entry = createAuditEntry(world, actor, 'ledger.reprice', target, null, {
    ...input,
    ...total,
  })
  const entries = plan.groups.map((group, i) => buildEntry(group, id, i + 1))
  await world.store.audit.append(entry)
  await world.store.generations.record(entries)
  for (const { charge } of entries) if (charge) world.ledger.charge(charge)
}

async function buildPlan(world: RepricingWorld, input: Repricing): Promise<Plan> {
  const { from, to } = readDays(world, input)
  const { name, ...prices } = findPrices(world.catalog, input)
  const groups = new Map<string, Group>()
  let [calls, left] = [0, 0]
  for await (const call of listCalls(world.store.generations, input.model, name, from, to)) {
    const expected = computeExpected(call, prices)
    const charged = call.upstream_inference_cost ?? 0n
    const isCorrection = call.api_type === CORRECTION
    if (!isCorrection) calls += 1
    if (!isCorrection && expected === null) left += 1
    if (!isCorrection && expected === null) continue
    const group = findGroup(groups, call)
    group.calls += Number(!isCorrection)
    group.charged += charged
    group.expected += expected ?? 0n
  }
  const differing = [...groups.values()].filter(({ charged, expected }) => charged !== expected)
  const sorted = differing.sort((a, b) => compareTexts(a.day, b.day))
  return { groups: sorted, calls, left }
}

/** Reads the days, as the first moment and the one after the last. Only days that are over count. */
function readDays({ clock }: RepricingWorld, input: Repricing): { from: number; to: number } {
  const [first, last] = (['from', 'to'] as const).map(name => {
    const day = parseDay(input[name])
    if (day === null) throw invalid(`${name}: expected a day, such as 2026-11-01`, name)
    return day
  }) as [number, number]
  if (last < first) throw invalid('to: expected a day from the first one on', 'to')
  const until = (last + 1) * DAY
  if (until > clock.now().getTime()) throw invalid('to: expected a day that is over', 'to')
  return { from: first * DAY, to: until }
}

/** Prices before and after. */
interface PriceChange {
  was: Prices | null
  is: Prices
}

function findPrices(catalog: Catalog, input: Repricing): PriceChange & { name: string } {
  const { model, provider } = input
  const given = pickRates(input, '')
  const known = catalog.providers.get(provider)
  if (!known) throw invalid(`provider: expected one that is known, found ${provider}`, 'provider')
  const endpoint: Endpoint | undefined = catalog.models
    .get(model)
    ?.endpoints.find(one => one.provider.slug === provider)
  const isGiven = Object.keys(given).length > 0
  const { tiers = [], ...rates } = endpoint?.prices ?? { prompt: undefined, completion: undefined }
  const prices = { ...rates, ...toExactPrices(given as Parameters<typeof toExactPrices>[0]) }
  const { prompt, completion } = prices
  if (prompt === undefined || completion === undefined)
    throw invalid(`prompt: expected it, and completion: ${model} has no price there`, 'prompt')
  const complete = { ...prices, prompt, completion }
  const is = isGiven ? complete : { ...complete, tiers }
  return { name: known.name, is, was: buildFormerPrices(pickRates(input, 'was_')) }
}

const RATES = ['prompt', 'completion', 'cache_read', 'reasoning', 'request'] as const
type Rates = Partial<Record<(typeof RATES)[number], number>>

function pickRates(input: Repricing, prefix: '' | 'was_'): Rates {
  const rates: Rates = {}
  for (const name of RATES) {
    const rate = input[`${prefix}${name}`]
    if (rate !== undefined) rates[name] = rate
  }
  return rates
}

function buildFormerPrices(rates: Rates): Prices | null {
  if (Object.keys(rates).length === 0) return null
  const { prompt, completion } = rates
  if (prompt === undefined || completion === undefined)
    throw invalid('was_prompt: expected it together with was_completion', 'was_prompt')
  return toExactPrices({ ...rates, prompt, completion })
}

/** Lists the calls that were settled in this time. A call is settled after it began. */
async function* listCalls(
  generations: GenerationStore,
  model: string,
  provider: string,
  from: number,
  to: number,
): AsyncGenerator<Generation> {
  const [since, until] = [from - DAY, to].map(time => new Date(time).toISOString())
  let cursor: string | undefined
  for (;;) {
    const query = { model, provider, since: String(since), until: String(until) }
    const page = await generations.list(cursor ? { ...query, cursor } : query, AT_ONCE)
    for (const call of page) {
      const settled = Date.parse(call.settled_at)
      if (settled >= from && settled < to) yield call
    }
    cursor = page.at(-1)?.id
    if (page.length < AT_ONCE) return
  }
}

/**
 * Computes what a call should have cost; null where that does not follow from its tokens, or nothing
 * was due.
 */
function computeExpected(call: Generation, { was, is }: PriceChange): bigint | null {
  const charged = call.upstream_inference_cost
  const isFree = charged === 0n && (call.error_type !== null || call.cancelled)
  const isPlain =
    TOKEN_TYPES.has(call.api_type) &&
    call.steps.length === 0 &&
    call.native_tokens_completion_images === 0 &&
    call.response_cache_source_id === null
  if (!isPlain || isFree) return null
  const usage = readUsage(call)
  if (charged !== null && (was === null || computeCost(usage, was).cost !== charged)) return null
  return computeCost(usage, is).cost
}

function readUsage(call: Generation): Usage {
  const cached = Math.min(call.native_tokens_cached, call.native_tokens_prompt)
  const reasoning = Math.min(call.native_tokens_reasoning, call.native_tokens_completion)
  const usage = createTextUsage(
    call.native_tokens_prompt - cached,
    call.native_tokens_completion - reasoning,
  )
  usage.input.cache_read = cached
  usage.output.reasoning = reasoning
  return usage
}

function findGroup(groups: Map<string, Group>, call: Generation): Group {
  const day = call.settled_at.slice(0, 10)
  const { key_hash, user_id, workspace_id, is_byok, http_referer, title } = call
  const parts = [day, key_hash, user_id, workspace_id, is_byok, http_referer, title]
  const name = JSON.stringify([...parts, call.provider_responses.at(-1)?.endpoint_id])
  const known = groups.get(name)
  if (known) return known
  const group = { day, sample: call, calls: 0, charged: 0n, expected: 0n }
  groups.set(name, group)
  return group
}

/** Builds the record of a correction and its charge, at the end of its day. */
function buildEntry({ day, sample, charged, expected }: Group, base: string, n: number) {
  const nanos = expected - charged
  const settled_at = `${day}T23:59:59.999Z`
  const id = `${base}-${n}`
  const generation: Generation = {
    ...sample,
    ...NOTHING,
    ...{ id, request_id: id, created_at: settled_at, settled_at },
    provider_responses: sample.provider_responses.slice(-1),
    total_cost: sample.is_byok ? 0n : nanos,
    upstream_inference_cost: nanos,
  }
  const { key_hash, user_id, workspace_id, is_byok: byok } = sample
  const number = Date.parse(settled_at.slice(0, 10)) / DAY
  const charge: StepCharge | null =
    key_hash === null
      ? null
      : {
          ...{ key_hash, user_id, workspace_id, byok, nanos, id, step: 1, settled_at },
          day: number,
          source: 'exact',
        }
  return { generation, charge } satisfies RecorderEntry
}

/** What a correction has none of. */
const NOTHING = {
  api_type: CORRECTION,
  upstream_id: null,
  streamed: false,
  cancelled: false,
  finish_reason: null,
  native_finish_reason: null,
  latency: null,
  generation_time: null,
  native_tokens_prompt: 0,
  native_tokens_completion: 0,
  native_tokens_reasoning: 0,
  native_tokens_cached: 0,
  native_tokens_completion_images: 0,
  usageSource: 'exact',
  service_tier: null,
  session_id: null,
  external_user: null,
  error_type: null,
  preset_id: null,
  router: null,
  batch_id: null,
  contentFilters: [],
  steps: [],
} satisfies Partial<Generation>

const render = (nanos: bigint): string => renderUsd(toAttos(nanos))

function showPlan({ groups, calls, left }: Plan, is_done: boolean) {
  const difference = groups.reduce((sum, one) => sum + one.expected - one.charged, 0n)
  return {
    data: groups.map(({ day, sample, calls, charged, expected }) => ({
      ...{ day, key_hash: sample.key_hash, workspace_id: sample.workspace_id, calls },
      is_byok: sample.is_byok,
      charged_usd: render(charged),
      expected_usd: render(expected),
      difference_usd: render(expected - charged),
    })),
    total: { calls, left, corrections: groups.length, difference_usd: render(difference), is_done },
  }
}
