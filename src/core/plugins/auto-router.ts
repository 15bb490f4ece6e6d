import { FREE_VARIANT } from '../catalog/models/free.ts'
import type { Model } from '../catalog/models.ts'
import {
  type Asked,
  choicesAmong,
  type Excluded,
  isSandbox,
  needsOf,
  textModels,
} from '../inference/plan/choices.ts'
import { type Chosen, MOST_CHOSEN, memoryOf, wishesOf } from '../inference/plan/chosen.ts'
import { nothingToChoose } from '../inference/plan/refusal.ts'
import type { Stage } from '../inference/routing-metadata.ts'
import type { InferenceWorld } from '../inference/world.ts'
import type { TextCall } from '../language/call.ts'
import type { AutoRouter, RouterWishes } from '../language/routing.ts'
import { isLike, patternOf } from './auto-router/pattern.ts'
import { type Band, bandOf, type Candidate, fittest, priced, ranked } from './auto-router/rank.ts'
import { type Task, taskOf } from './auto-router/task.ts'

/**
 * Picks models for a call: of the candidates that may serve it and accept its content, those within
 * its cost band, best suited to its task first. The model that answered the session before is kept
 * as long as it is a candidate, and so is one that the caller pins. The decision is deterministic:
 * the same call gets the same models unless something else has changed.
 */
export function autoRouted(gateway: InferenceWorld, router: AutoRouter, asked: Asked): Chosen {
  const { call, session } = asked
  const wishes = wishesOf(call, router)
  const needs = needsOf(call)
  const task = taskOf(call, needs.tokens)
  const excluded: Excluded = { by: new Set(), rules: new Set() }
  const choices = choicesAmong(
    gateway,
    textModels(gateway.catalog),
    asked,
    needs,
    excluded,
    barring(gateway, wishes),
  )
  const candidates = ranked(bestOf(choices.map(choice => priced(choice, task, needs, call))))
  const band = bandOf(candidates, wishes)
  const order = [...fittest(band.inside, task, needs, call), ...band.below]
  const kept = keptAmong(gateway.catalog, candidates, {
    pin: wishes.pinned ? findLastModel(call) : undefined,
    session: session && gateway.traffic.sessions.placeOf(session, memoryOf(call, router)),
  })
  const chosen = [
    ...new Set([...(kept ? [kept.model] : []), ...order.map(({ model }) => model)]),
  ].slice(0, MOST_CHOSEN)
  return {
    models: chosen,
    stage: stageOf({
      router,
      task,
      wishes,
      band,
      candidates: candidates.length,
      model: chosen[0],
      kept: kept?.why,
    }),
    refusal: chosen.length > 0 ? null : nothingToChoose(call, excluded),
  }
}

/** Reasons for exclusion that are not in the public list. */
const ALLOWED_MODELS = 'allowed_models'
const FREE_MODELS = 'free_models'

/** Returns a function that gives the reason why a model is excluded; undefined if it is not. */
function barring(
  { catalog, config }: InferenceWorld,
  { allowed, excluded }: RouterWishes,
): (model: Model) => string | undefined {
  const isAllowed = allowed && named(allowed, catalog.models)
  const isExcluded = excluded && named(excluded, catalog.models)
  return model => {
    // Calls to free variants count against a limit that is checked before a router decides.
    if (config.limits.free_models !== false && isFreeVariant(model)) return FREE_MODELS
    if (isAllowed && !isAllowed(model.id)) return ALLOWED_MODELS
    return isExcluded?.(model.id) || isExcluded?.(baseOf(model.id)) ? ALLOWED_MODELS : undefined
  }
}

// Excluding a model also excludes its variants.
const baseOf = (slug: string) => (slug.includes(':') ? slug.slice(0, slug.lastIndexOf(':')) : slug)

/**
 * Returns a function that tells whether a slug matches one of the patterns. A pattern without a
 * star may be an alias of a model.
 */
function named(
  said: string[],
  models: InferenceWorld['catalog']['models'],
): (slug: string) => boolean {
  const names = said.filter(one => !one.includes('*'))
  const slugs = new Set(names.flatMap(name => [name, models.get(name)?.id.toLowerCase() ?? name]))
  const patterns = said.filter(one => one.includes('*')).map(patternOf)
  return slug => {
    const small = slug.toLowerCase()
    return slugs.has(small) || patterns.some(pattern => isLike(small, pattern))
  }
}

const isFreeVariant = ({ id }: Model) => id.endsWith(FREE_VARIANT)

/** Words in the slugs of models that are not made for conversations. */
const SPECIAL = new Set([
  'guard',
  'safeguard',
  'moderation',
  'search',
  'research',
  'router',
  'customtools',
])

/** The candidates that are picked only if no better ones are left, the best of them first. */
const RESORTS: ((candidate: Candidate) => boolean)[] = [
  ({ model }) => isSpecial(model),
  ({ price }) => price === null,
  // Their providers allow only a few calls.
  ({ model }) => isFreeVariant(model),
  ({ model }) => isSandbox(model),
]

/** Cached by model, because a model does not change. */
const special = new WeakMap<Model, boolean>()

function isSpecial(model: Model): boolean {
  const known = special.get(model) ?? model.id.split(/[/.-]/).some(word => SPECIAL.has(word))
  special.set(model, known)
  return known
}

/** Picks the candidates of the best kind that is left. */
function bestOf(candidates: Candidate[]): Candidate[] {
  const resortOf = (candidate: Candidate) => RESORTS.findLastIndex(isResort => isResort(candidate))
  const resorts = candidates.map(resortOf)
  const best = Math.min(...resorts)
  return candidates.filter((_, i) => resorts[i] === best)
}

/** Finds the candidate that continues the conversation: the pinned one, or the session's. */
function keptAmong(
  catalog: InferenceWorld['catalog'],
  candidates: Candidate[],
  slugs: { pin: string | undefined; session: string | null | undefined },
): { model: Model; why: 'pin' | 'session' } | undefined {
  const candidateCalled = (slug: string | null | undefined): Model | undefined => {
    const model = slug == null ? undefined : catalog.models.get(slug)
    return candidates.find(candidate => candidate.model === model)?.model
  }
  const pin = candidateCalled(slugs.pin)
  if (pin) return { model: pin, why: 'pin' }
  const model = candidateCalled(slugs.session)
  return model && { model, why: 'session' }
}

const findLastModel = ({ turns }: TextCall): string | undefined =>
  turns.findLast(({ role }) => role === 'assistant')?.model

const KEPT = { pin: 'it gave the last answer', session: 'it has answered this session before' }

/** What the router picked, from how many candidates, and why. */
interface Decision {
  router: AutoRouter
  task: Task
  wishes: RouterWishes
  band: Band
  candidates: number
  model: Model | undefined
  kept: keyof typeof KEPT | undefined
}

function stageOf({
  router,
  task: task_type,
  wishes: { tier },
  band,
  candidates,
  model,
  kept,
}: Decision): Stage {
  const name = `${router}-router`
  if (!model)
    return {
      type: 'plugin',
      name,
      summary: 'No model was left to choose from.',
      data: { task_type, candidates },
    }
  const cost = band.tier ? { cost_tier: band.tier } : { cost_ceiling: band.ceiling }
  const where = kept ? KEPT[kept] : `the fittest for it ${placeOf(band, tier)}`
  const among = `${candidates} ${candidates === 1 ? 'candidate' : 'candidates'}`
  const choice = `${model.id} was chosen among ${among}: ${where}.`
  const summary = `The call looks like ${task_type}. ${choice}`
  return {
    type: 'plugin',
    name,
    summary,
    data: { task_type, ...cost, candidates, chosen: model.id, ...(kept ? { kept } : {}) },
  }
}

function placeOf({ tier, ceiling }: Band, wanted: RouterWishes['tier']): string {
  if (!tier) return `within the cheapest ${ceiling} percent`
  return tier === wanted
    ? `in the cost tier ${tier}`
    : `in the cost tier ${tier}, the nearest to ${wanted} that has any`
}
