import type { PipelineStage, RouterDecision, RouterInputs } from '../../engine/plan/candidates.ts'
import { noRouterCandidates } from '../../engine/plan/refusal.ts'
import {
  collectRequirements,
  type Exclusions,
  findFreeLimit,
  isFreeVariant,
  isSandbox,
  listRouterCandidates,
  listTextModels,
  type Requirements,
  type RouterCandidate,
} from '../../engine/plan/router-candidates.ts'
import {
  buildRouterMemoryKey,
  getRouterOptions,
  MAX_ROUTER_MODELS,
} from '../../engine/plan/router-decision.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message } from '../../language/message.ts'
import {
  type AutoRouter,
  COST_TIERS,
  type CostTier,
  type RouterOptions,
} from '../../language/routing.ts'
import type { Endpoint, Model } from '../../resources/models/catalog.ts'
import { type Prices, pickPrices } from '../../resources/prices.ts'
import type { ExtensionWorld } from '../world.ts'
import { WORD_TASKS, WORDS, type WordTask } from './auto-router/words.data.ts'

/**
 * Picks models for a call: of the candidates that may serve it and accept its content, those within
 * its cost band, best suited to its task first. The model that answered the session before is kept
 * as long as it is a candidate, and so is one that the caller pins. The decision is deterministic:
 * the same call gets the same models unless something else has changed.
 */
export function decideAutoRoute(
  world: ExtensionWorld,
  router: AutoRouter,
  asked: RouterInputs,
): RouterDecision {
  const { call, session } = asked
  const wishes = getRouterOptions(call, router)
  const needs = collectRequirements(call)
  const task = detectTask(call, needs.tokens)
  const excluded: Exclusions = { reasons: new Set(), rules: new Set() }
  const routerCandidates = listRouterCandidates(
    world,
    listTextModels(world.catalog),
    asked,
    needs,
    excluded,
    createExclusionTest(world, wishes),
  )
  const candidates = rankCandidates(
    pickBest(routerCandidates.map(choice => priceCandidate(choice, task, needs, call))),
  )
  const band = pickBand(candidates, wishes)
  const order = [...orderByFitness(band.inside, task, needs, call), ...band.below]
  const kept = findKeptModel(world.catalog, candidates, {
    pin: wishes.pinned ? findLastModel(call) : undefined,
    session:
      session && world.traffic.sessions.findStickyId(session, buildRouterMemoryKey(call, router)),
  })
  const models = [
    ...new Set([...(kept ? [kept.model] : []), ...order.map(({ model }) => model)]),
  ].slice(0, MAX_ROUTER_MODELS)
  return {
    models: models,
    stage: buildStage({
      router,
      task,
      wishes,
      band,
      candidates: candidates.length,
      model: models[0],
      kept: kept?.why,
    }),
    refusal: models.length > 0 ? null : noRouterCandidates(call, excluded),
  }
}

/** A reason for exclusion that is not in the public list. */
const ALLOWED_MODELS = 'allowed_models'

/** Returns a function that gives the reason why a model is excluded; undefined if it is not. */
function createExclusionTest(
  { catalog, config }: ExtensionWorld,
  { allowed, excluded }: RouterOptions,
): (model: Model) => string | undefined {
  const isAllowed = allowed && createSlugMatcher(allowed, catalog.models)
  const isExcluded = excluded && createSlugMatcher(excluded, catalog.models)
  return model => {
    const limit = findFreeLimit({ config }, model)
    if (limit) return limit
    if (isAllowed && !isAllowed(model.id)) return ALLOWED_MODELS
    return isExcluded?.(model.id) || isExcluded?.(stripVariant(model.id))
      ? ALLOWED_MODELS
      : undefined
  }
}

// Excluding a model also excludes its variants.
const stripVariant = (slug: string) =>
  slug.includes(':') ? slug.slice(0, slug.lastIndexOf(':')) : slug

/**
 * Returns a function that tells whether a slug matches one of the patterns. A pattern without a
 * star may be an alias of a model.
 */
function createSlugMatcher(
  patterns: string[],
  models: ExtensionWorld['catalog']['models'],
): (slug: string) => boolean {
  const names = patterns.filter(one => !one.includes('*'))
  const slugs = new Set(names.flatMap(name => [name, models.get(name)?.id.toLowerCase() ?? name]))
  const wildcards = patterns.filter(one => one.includes('*')).map(parsePattern)
  return slug => {
    const lowerCase = slug.toLowerCase()
    return slugs.has(lowerCase) || wildcards.some(pattern => matchesPattern(lowerCase, pattern))
  }
}

/** Words in the slugs of models that are not made for conversations. */
const SPECIAL_PURPOSE_WORDS = new Set([
  'guard',
  'safeguard',
  'moderation',
  'search',
  'research',
  'router',
  'customtools',
])

/** The candidates that are picked only if no better ones are left, the best of them first. */
const LAST_RESORTS: ((candidate: PricedCandidate) => boolean)[] = [
  ({ model }) => isSpecialPurpose(model),
  ({ price }) => price === null,
  // Their providers allow only a few calls.
  ({ model }) => isFreeVariant(model),
  ({ model }) => isSandbox(model),
]

/** Cached by model, because a model does not change. */
const specialPurposeModels = new WeakMap<Model, boolean>()

function isSpecialPurpose(model: Model): boolean {
  const known =
    specialPurposeModels.get(model) ??
    model.id.split(/[/.-]/).some(word => SPECIAL_PURPOSE_WORDS.has(word))
  specialPurposeModels.set(model, known)
  return known
}

/** Picks the candidates of the best kind that is left. */
function pickBest(candidates: PricedCandidate[]): PricedCandidate[] {
  const findResort = (candidate: PricedCandidate) =>
    LAST_RESORTS.findLastIndex(isResort => isResort(candidate))
  const resorts = candidates.map(findResort)
  const best = Math.min(...resorts)
  return candidates.filter((_, i) => resorts[i] === best)
}

/** Finds the candidate that continues the conversation: the pinned one, or the session's. */
function findKeptModel(
  catalog: ExtensionWorld['catalog'],
  candidates: PricedCandidate[],
  slugs: { pin: string | undefined; session: string | null | undefined },
): { model: Model; why: 'pin' | 'session' } | undefined {
  const findCandidate = (slug: string | null | undefined): Model | undefined => {
    const model = slug == null ? undefined : catalog.models.get(slug)
    return candidates.find(candidate => candidate.model === model)?.model
  }
  const pin = findCandidate(slugs.pin)
  if (pin) return { model: pin, why: 'pin' }
  const model = findCandidate(slugs.session)
  return model && { model, why: 'session' }
}

const findLastModel = ({ messages }: TextCall): string | undefined =>
  messages.findLast(({ role }) => role === 'assistant')?.model

const KEPT_REASONS = {
  pin: 'it gave the last answer',
  session: 'it has answered this session before',
}

/** What the router picked, from how many candidates, and why. */
interface AutoDecision {
  router: AutoRouter
  task: Task
  wishes: RouterOptions
  band: Band
  candidates: number
  model: Model | undefined
  kept: keyof typeof KEPT_REASONS | undefined
}

function buildStage({
  router,
  task: task_type,
  wishes: { tier },
  band,
  candidates,
  model,
  kept,
}: AutoDecision): PipelineStage {
  const name = `${router}-router`
  if (!model)
    return {
      type: 'plugin',
      name,
      summary: 'No model was left to choose from.',
      data: { task_type, candidates },
    }
  const cost = band.tier ? { cost_tier: band.tier } : { cost_ceiling: band.ceiling }
  const reason = kept ? KEPT_REASONS[kept] : `the fittest for it ${describeBand(band, tier)}`
  const among = `${candidates} ${candidates === 1 ? 'candidate' : 'candidates'}`
  const choice = `${model.id} was chosen among ${among}: ${reason}.`
  const summary = `The call looks like ${task_type}. ${choice}`
  return {
    type: 'plugin',
    name,
    summary,
    data: { task_type, ...cost, candidates, chosen: model.id, ...(kept ? { kept } : {}) },
  }
}

function describeBand({ tier, ceiling }: Band, requestedTier: RouterOptions['tier']): string {
  if (!tier) return `within the cheapest ${ceiling} percent`
  return tier === requestedTier
    ? `in the cost tier ${tier}`
    : `in the cost tier ${tier}, the nearest to ${requestedTier} that has any`
}

/** The operations on a text that matching needs, so that tests can count them. */
export type Characters = Pick<string, 'length' | 'startsWith' | 'endsWith' | 'indexOf'>

/** A pattern in which `*` matches anything, split at its stars. */
interface SlugPattern {
  head: string
  /** The pieces that must come between head and tail, in this order. */
  middle: string[]
  /** Undefined if there is no star: then the head is the whole pattern. */
  tail: string | undefined
  /** The number of characters without the stars. */
  minLength: number
}

/** Splits a pattern at its stars. */
export function parsePattern(text: string): SlugPattern {
  const [head = '', ...rest] = text.split('*')
  const tail = rest.pop()
  const middle = rest.filter(piece => piece !== '')
  return {
    head,
    middle,
    tail,
    minLength: middle.reduce((sum, piece) => sum + piece.length, head.length + (tail?.length ?? 0)),
  }
}

/**
 * Tells whether a text matches a pattern. Each piece is searched for once, from the end of the one
 * before: the first match leaves the most room for the rest. A text that is shorter than the
 * pattern's own characters is not searched, however many stars there are.
 */
export function matchesPattern(
  text: Characters,
  { head, middle, tail, minLength }: SlugPattern,
): boolean {
  if (text.length < minLength || !text.startsWith(head)) return false
  if (tail === undefined) return text.length === head.length
  if (!text.endsWith(tail)) return false
  let at = head.length
  for (const piece of middle) {
    const found = text.indexOf(piece, at)
    if (found === -1) return false
    at = found + piece.length
  }
  return at <= text.length - tail.length
}

/** A candidate with the probable cost of the call, in atto-dollars; null if it is unknown. */
interface PricedCandidate extends RouterCandidate {
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
function priceCandidate(
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
interface Band {
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
function pickBand(
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

/** What a call is for, as far as it can be detected. */
export type Task = 'vision' | 'agentic' | 'extraction' | 'long-context' | WordTask | 'chat'

/** The tokens from which a prompt is long. */
const LONG_PROMPT = 64_000

/**
 * Detects the task of a call whose prompt has this many tokens. The criteria in order: pictures in
 * the last user message, tools that the model may call, a JSON answer, a long prompt, words, and a
 * request for reasoning. Words are read at both ends of the last user message and, at half their
 * weight, at the beginning of the instructions. The same call always has the same task. At most
 * three excerpts of `EXCERPT_LENGTH` characters are read, however long the call is.
 */
export function detectTask(call: TextCall, tokens: number): Task {
  const { tools, params, messages } = call
  const last = messages.findLast(({ role }) => role === 'user')
  if (last?.blocks.some(isVisual)) return 'vision'
  if (tools.length > 0 && params.tool_choice !== 'none') return 'agentic'
  if (params.response_format?.type.startsWith('json')) return 'extraction'
  if (tokens >= LONG_PROMPT) return 'long-context'
  return (
    detectTaskByWords(last, messages.find(isInstruction)) ??
    (wantsReasoning(call) ? 'reasoning' : 'chat')
  )
}

const isVisual = ({ type }: Block) => type === 'image' || type === 'video'
const isInstruction = ({ role }: Message) => role === 'system' || role === 'developer'

/** Tells whether the caller asks for reasoning. */
const wantsReasoning = ({ params: { reasoning } }: TextCall): boolean =>
  reasoning !== undefined && reasoning.enabled !== false && reasoning.effort !== 'none'

/** Characters. A text states its task at the beginning or the end; its subject is in between. */
const EXCERPT_LENGTH = 1_024

/** The weights of a word in the user's message. In the instructions they are halved. */
const STRONG_WEIGHT = 4
const WEAK_WEIGHT = 2
/** The least sum of weights that identifies a task. */
const MIN_WEIGHT = 4

function detectTaskByWords(
  last: Message | undefined,
  instructions: Message | undefined,
): WordTask | undefined {
  const userText = last ? readEnds(last) : ''
  const instructionText = instructions ? readEnds(instructions).slice(0, EXCERPT_LENGTH) : ''
  const [promptWords, instructionWords] = [collectWords(userText), collectWords(instructionText)]
  let best: { task: WordTask | undefined; sum: number } = { task: undefined, sum: MIN_WEIGHT - 1 }
  for (const task of WORD_TASKS) {
    const sum =
      computeWeight(task, promptWords, userText) +
      computeWeight(task, instructionWords, instructionText) / 2
    if (sum > best.sum) best = { task, sum }
  }
  return best.task
}

/** Reads the beginning and the end of a message's text, in lower case. */
function readEnds({ blocks }: Message): string {
  const texts = blocks.flatMap(block => (block.type === 'text' ? block.text : []))
  const [first = ''] = texts
  const last = texts.at(-1) ?? ''
  const isShort = texts.length === 1 && first.length <= 2 * EXCERPT_LENGTH
  return (
    isShort ? first : `${first.slice(0, EXCERPT_LENGTH)}\n${last.slice(-EXCERPT_LENGTH)}`
  ).toLowerCase()
}

const collectWords = (text: string): Set<string> => new Set(text.match(/[\p{L}-]+/gu))

/** Adds up the weights of a task's words. Each word counts once, however often it occurs. */
function computeWeight(task: WordTask, words: Set<string>, text: string): number {
  const { strong, weak, signs } = WORDS[task]
  const countFound = (list: string[]) =>
    list.reduce((count, word) => count + Number(words.has(word)), 0)
  return (
    countFound(strong) * STRONG_WEIGHT +
    countFound(weak) * WEAK_WEIGHT +
    signs.reduce((sum, sign) => sum + (text.includes(sign) ? STRONG_WEIGHT : 0), 0)
  )
}
