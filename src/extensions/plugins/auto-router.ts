import { noRouterCandidates } from '../../engine/plan/refusal.ts'
import {
  collectRequirements,
  type Exclusions,
  isSandbox,
  listRouterCandidates,
  listTextModels,
  type RouterInputs,
} from '../../engine/plan/router-candidates.ts'
import {
  buildRouterMemoryKey,
  getRouterOptions,
  MAX_ROUTER_MODELS,
  type RouterDecision,
} from '../../engine/plan/router-decision.ts'
import type { PipelineStage } from '../../engine/routing-metadata.ts'
import type { TextCall } from '../../language/call.ts'
import type { AutoRouter, RouterOptions } from '../../language/routing.ts'
import type { Model } from '../../resources/models/catalog.ts'
import { FREE_VARIANT } from '../../resources/models/derived.ts'
import type { ExtensionWorld } from '../world.ts'
import {
  type Band,
  orderByFitness,
  type PricedCandidate,
  pickBand,
  priceCandidate,
  rankCandidates,
} from './auto-router/rank.ts'
import { detectTask, type Task } from './auto-router/task.ts'

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

/** Reasons for exclusion that are not in the public list. */
const ALLOWED_MODELS = 'allowed_models'
const FREE_MODELS = 'free_models'

/** Returns a function that gives the reason why a model is excluded; undefined if it is not. */
function createExclusionTest(
  { catalog, config }: ExtensionWorld,
  { allowed, excluded }: RouterOptions,
): (model: Model) => string | undefined {
  const isAllowed = allowed && createSlugMatcher(allowed, catalog.models)
  const isExcluded = excluded && createSlugMatcher(excluded, catalog.models)
  return model => {
    // Calls to free variants count against a limit that is checked before a router decides.
    if (config.limits.free_models !== false && isFreeVariant(model)) return FREE_MODELS
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

const isFreeVariant = ({ id }: Model) => id.endsWith(FREE_VARIANT)

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
