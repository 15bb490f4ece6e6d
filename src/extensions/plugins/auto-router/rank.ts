import type { Requirements, RouterCandidate } from '../../../engine/plan/router-candidates.ts'
import type { TextCall } from '../../../language/call.ts'
import { COST_TIERS, type CostTier, type RouterOptions } from '../../../language/routing.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { type Prices, pickPrices } from '../../../resources/prices.ts'
import { type Task, wantsReasoning } from './task.ts'

/** A candidate with the probable cost of the call, in atto-dollars; null if it is unknown. */
export interface PricedCandidate extends RouterCandidate {
  price: number | null
}

/** A candidate with its rank: the percentage of candidates that are cheaper. */
export interface RankedCandidate extends PricedCandidate {
  percentile: number
}

/** The assumed tokens of an answer, by task: a share of the prompt's tokens, with a minimum. */
const ANSWER_LENGTHS: Record<Task, { least: number; share: number }> = {
  chat: { least: 500, share: 0 },
  vision: { least: 500, share: 0 },
  agentic: { least: 500, share: 0 },
  extraction: { least: 300, share: 0.2 },
  'long-context': { least: 1_000, share: 0 },
  translation: { least: 100, share: 1 },
  summarization: { least: 300, share: 0.2 },
  'creative-writing': { least: 1_500, share: 0 },
  math: { least: 2_000, share: 0 },
  code: { least: 2_000, share: 0.5 },
  reasoning: { least: 2_000, share: 0 },
}

/** Adds the price of this call at the cheapest of the candidate's endpoints. */
export function priceCandidate(
  choice: RouterCandidate,
  task: Task,
  { tokens }: Requirements,
  { params: { max_tokens } }: TextCall,
): PricedCandidate {
  const { least, share } = ANSWER_LENGTHS[task]
  const answer = Math.min(Math.max(least, share * tokens), max_tokens ?? Number.POSITIVE_INFINITY)
  let price: number | null = null
  for (const { prices } of choice.endpoints) {
    const cost = prices && computeCost(prices, tokens, answer)
    if (cost !== null && (price === null || cost < price)) price = cost
  }
  return { ...choice, price }
}

function computeCost(prices: Prices, prompt: number, answer: number): number {
  const rates = pickPrices(prices, prompt)
  return (
    Number(rates.prompt) * prompt + Number(rates.completion) * answer + Number(rates.request ?? 0n)
  )
}

/** Ranks the candidates, cheapest first. Candidates of the same price have the same percentile. */
export function rankCandidates(candidates: PricedCandidate[]): RankedCandidate[] {
  const sorted = candidates.toSorted(
    (a, b) => (a.price ?? 0) - (b.price ?? 0) || compareText(a.model.id, b.model.id),
  )
  let cheaper = 0
  return sorted.map((candidate, i) => {
    if (candidate.price !== sorted[cheaper]?.price) cheaper = i
    return { ...candidate, percentile: (100 * cheaper) / sorted.length }
  })
}

const compareText = (a: string, b: string) => (a < b ? -1 : Number(a > b))

/** The candidates within the cost that a call allows. */
export interface Band {
  inside: RankedCandidate[]
  /** Cheaper candidates, to fall back on; the most expensive first. */
  below: RankedCandidate[]
  tier?: CostTier
  /** The percentile that no candidate exceeds. */
  ceiling?: number
}

/** The tradeoff of calls that name neither tier nor tradeoff, as in the public service. */
const DEFAULT_TRADEOFF = 9

/**
 * Picks the candidates of the requested tier, or of the nearest tier that has any, preferring
 * cheaper tiers. Without a tier, picks those under the ceiling that the tradeoff sets.
 */
export function pickBand(
  all: RankedCandidate[],
  { tier, tradeoff = DEFAULT_TRADEOFF }: RouterOptions,
): Band {
  // From 10, the cheapest tenth of the models, to 0, nine tenths.
  if (!tier) return pickBelowCeiling(all, 90 - 8 * tradeoff)
  const requested = COST_TIERS.indexOf(tier)
  const tiersByDistance = COST_TIERS.toSorted(
    (a, b) => computeDistance(a, requested) - computeDistance(b, requested),
  )
  const nearestTier =
    tiersByDistance.find(one => all.some(candidate => getCostTier(candidate) === one)) ?? tier
  const least = COST_TIERS.indexOf(nearestTier)
  return {
    tier: nearestTier,
    inside: all.filter(candidate => getCostTier(candidate) === nearestTier),
    below: all.filter(candidate => COST_TIERS.indexOf(getCostTier(candidate)) < least).toReversed(),
  }
}

const pickBelowCeiling = (all: RankedCandidate[], ceiling: number): Band => ({
  ceiling,
  inside: all.filter(({ percentile }) => percentile <= ceiling),
  below: [],
})

const getCostTier = ({ percentile }: RankedCandidate): CostTier =>
  COST_TIERS[Math.min(Math.floor(percentile / 20), 4)] ?? 'max'

// Of two tiers at the same distance the cheaper is nearer.
const computeDistance = (tier: CostTier, wanted: number) => {
  const apart = COST_TIERS.indexOf(tier) - wanted
  return apart <= 0 ? -apart : apart + 0.5
}

/** The tasks that models with reasoning do better. */
const THOUGHTFUL: Task[] = ['code', 'math', 'reasoning', 'agentic']

/** The tokens of an answer as long as a story. */
const LONG_ANSWER = 16_000

/** Seconds. A model that is older than the newest by more is of a previous generation. */
const GENERATION = 365 * 86_400

/** The tokens of a context in which a conversation can continue. */
const ROOMY = 100_000

/**
 * Orders candidates by how well they suit the task, using only facts about the models. The criteria
 * in order: room for the prompt at its largest estimate; suitability for the task; room for the
 * conversation to continue; a newer model, if its age is known; a lower price.
 */
export function orderByFitness(
  candidates: RankedCandidate[],
  task: Task,
  needs: Requirements,
  call: TextCall,
): RankedCandidate[] {
  const latest = Math.max(...candidates.map(({ model }) => model.created ?? 0)) - GENERATION
  const scoredCandidates = candidates.map(candidate => ({
    candidate,
    scores: scoreCandidate(candidate, { task, tokens: needs.tokens, call, latest }),
  }))
  return scoredCandidates
    .sort(
      (a, b) =>
        compareScores(a.scores, b.scores) ||
        compareText(a.candidate.model.id, b.candidate.model.id),
    )
    .map(one => one.candidate)
}

/** What candidates are scored for. */
interface Goal {
  task: Task
  /** The tokens of the prompt at its largest estimate. */
  tokens: number
  call: TextCall
  /** Unix seconds: models created earlier are of a previous generation. */
  latest: number
}

/** Returns the scores of a candidate, the most important first; higher is better. */
function scoreCandidate(candidate: RankedCandidate, goal: Goal): number[] {
  const context = findLargest(candidate.endpoints, ({ context_length }) => context_length)
  return [
    Number(context > goal.tokens),
    scoreSuitability(candidate, context, goal),
    Number(context >= ROOMY),
    candidate.model.created ?? 0,
    -(candidate.price ?? 0),
  ]
}

function scoreSuitability(
  { model, endpoints }: RankedCandidate,
  context: number,
  { task, call, latest }: Goal,
): number {
  const { reasoning, created } = model
  if (wantsReasoning(call) || (THOUGHTFUL.includes(task) && call.params.reasoning === undefined))
    return Number(reasoning !== null)
  switch (task) {
    case 'long-context':
      return context
    case 'creative-writing':
      return Number(
        findLargest(endpoints, endpoint => endpoint.max_completion_tokens) >= LONG_ANSWER,
      )
    default:
      // A model that always reasons answers late, but better than one of a previous generation.
      return Number((created ?? 0) >= latest) * 2 + Number(!reasoning?.mandatory)
  }
}

const findLargest = (endpoints: Endpoint[], of: (endpoint: Endpoint) => number | null) =>
  Math.max(...endpoints.map(endpoint => of(endpoint) ?? 0))

function compareScores(a: number[], b: number[]): number {
  const at = a.findIndex((score, i) => score !== b[i])
  return at === -1 ? 0 : (b[at] ?? 0) - (a[at] ?? 0)
}
