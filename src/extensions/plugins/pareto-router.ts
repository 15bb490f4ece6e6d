import type { Static } from '@sinclair/typebox'
import { GatewayError } from '../../base/errors.ts'
import { toAttosPerToken } from '../../base/money.ts'
import type { PipelineStage, RouterDecision, RouterInputs } from '../../engine/plan/candidates.ts'
import { noRouterCandidates } from '../../engine/plan/refusal.ts'
import {
  collectRequirements,
  type Exclusions,
  findFreeLimit,
  listRouterCandidates,
  listTextModels,
  type RouterCandidate,
} from '../../engine/plan/router-candidates.ts'
import { MAX_ROUTER_MODELS } from '../../engine/plan/router-decision.ts'
import { type Prices, pickPrices } from '../../resources/prices.ts'
import { ParetoRouter } from '../../translation/dialects/plugin-entries.ts'
import type { Plugin } from '../plugin.ts'
import type { ExtensionWorld } from '../world.ts'

/** How well models have to write code, and what they may cost (wire reference C.4). */
export interface ParetoOptions {
  /** From 0 to 1. */
  least: number
  /** Dollars for a million tokens. */
  maxPrice?: number
  source: 'prompt' | 'weighted_avg'
}

/** The bands of coding scores (wire reference C.4): a score counts as the least of its band. */
const HIGH = 0.66
const MEDIUM = 0.33
const findBand = (score: number) => (score >= HIGH ? 2 : score >= MEDIUM ? 1 : 0)
const BAND_NAMES = ['low', 'medium', 'high'] as const

/**
 * The `pareto-router` plugin, which decides for `pareto-code`: the cheapest model of the wanted
 * band of coding scores that no other is both cheaper and better than.
 */
export const paretoRouter: Plugin<ParetoOptions> = {
  id: 'pareto-router',
  schema: ParetoRouter,
  readOptions(entry) {
    const { max_price, min_coding_score, price_source } = entry as Static<typeof ParetoRouter>
    return {
      least: min_coding_score ?? HIGH,
      ...(max_price == null ? {} : { maxPrice: max_price }),
      source: price_source ?? 'weighted_avg',
    }
  },
  decide: decideParetoRoute,
}

const DEFAULTS: ParetoOptions = { least: HIGH, source: 'weighted_avg' }

/** A candidate with its score, and its price for a token in atto-dollars. */
interface ScoredCandidate extends RouterCandidate {
  score: number
  price: number
}

function decideParetoRoute(world: ExtensionWorld, asked: RouterInputs): RouterDecision {
  const options = (asked.call.plugins?.['pareto-router'] as ParetoOptions | undefined) ?? DEFAULTS
  const excluded: Exclusions = { reasons: new Set(), rules: new Set() }
  const scores = readScores(world)
  const needs = collectRequirements(asked.call)
  const candidates = listRouterCandidates(
    world,
    listTextModels(world.catalog),
    asked,
    needs,
    excluded,
    model => findFreeLimit(world, model) ?? findExclusion(scores.get(model.id), options),
  )
  const priced = priceCandidates(candidates, scores, { ...options, leastTokens: needs.leastTokens })
  const frontier = listFrontier(priced)
  const models = frontier.slice(0, MAX_ROUTER_MODELS).map(({ model }) => model)
  if (priced.length === 0 && candidates.length > 0) excluded.reasons.add('max_price')
  return {
    models,
    stage: buildStage(frontier, priced.length, options),
    refusal: models.length > 0 ? null : refuse(asked, excluded, scores.size),
  }
}

/** Reads the coding scores of the config, by the models' own names. */
function readScores({ config, catalog }: ExtensionWorld): Map<string, number> {
  const { coding_scores } = config.plugins
  return new Map(
    Object.entries(coding_scores).map(([slug, score]) => [
      catalog.models.get(slug)?.id ?? slug,
      score,
    ]),
  )
}

const CODING_SCORE = 'coding_score'

/** Models whose score is not known are never picked. */
const findExclusion = (score: number | undefined, { least }: ParetoOptions): string | undefined =>
  score !== undefined && findBand(score) >= findBand(least) ? undefined : CODING_SCORE

/** What is wanted, for a prompt that has at least so many tokens. */
type Wanted = ParetoOptions & { leastTokens: number }

/** Prices each candidate at its cheapest endpoint. Those without a price, or above it, are left out. */
function priceCandidates(
  candidates: RouterCandidate[],
  scores: Map<string, number>,
  { maxPrice, source, leastTokens }: Wanted,
): ScoredCandidate[] {
  const most = maxPrice === undefined ? Infinity : Number(toAttosPerToken(maxPrice))
  return candidates.flatMap((candidate): ScoredCandidate[] => {
    const prices = candidate.endpoints.flatMap(({ prices }) =>
      prices ? computePrice(pickPrices(prices, leastTokens), source) : [],
    )
    const price = Math.min(...prices)
    const score = scores.get(candidate.model.id) ?? 0
    return prices.length > 0 && price <= most ? [{ ...candidate, score, price }] : []
  })
}

/** Code is mostly read: a weighted price has three tokens of a prompt for each of an answer. */
const PROMPT_SHARE = 3 / 4

function computePrice(prices: Prices, source: ParetoOptions['source']): number {
  const prompt = Number(prices.prompt)
  return source === 'prompt'
    ? prompt
    : prompt * PROMPT_SHARE + Number(prices.completion) * (1 - PROMPT_SHARE)
}

/** Lists the candidates that none is both cheaper and better than, the cheapest first. */
function listFrontier(candidates: ScoredCandidate[]): ScoredCandidate[] {
  const sorted = candidates.toSorted(
    (a, b) => a.price - b.price || b.score - a.score || (a.model.id < b.model.id ? -1 : 1),
  )
  let best = -1
  return sorted.filter(({ score }) => {
    if (score <= best) return false
    best = score
    return true
  })
}

function buildStage(
  frontier: ScoredCandidate[],
  candidates: number,
  { least, source }: ParetoOptions,
): PipelineStage {
  const band = BAND_NAMES[findBand(least)] ?? 'low'
  const [first] = frontier
  return {
    type: 'plugin',
    name: 'pareto-router',
    summary: first
      ? `${first.model.id} was chosen among ${candidates}: the cheapest with a coding score of the band ${band}.`
      : `No model with a coding score of the band ${band} was left to choose from.`,
    data: {
      ...{ band, price_source: source, candidates },
      ...(first ? { chosen: first.model.id, coding_score: first.score } : {}),
    },
  }
}

function refuse({ call }: RouterInputs, excluded: Exclusions, known: number): GatewayError {
  const refusal = noRouterCandidates(call, excluded)
  if (known > 0) return refusal
  return new GatewayError(refusal.type, `${refusal.message}: ${NO_SCORES}`, {
    metadata: refusal.metadata,
  })
}

const NO_SCORES =
  'no coding score of a model is known; plugins.coding_scores of the config has none'
