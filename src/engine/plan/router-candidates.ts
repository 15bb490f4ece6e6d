import type { TextCall } from '../../language/call.ts'
import type { Rule } from '../../limits/policy-world.ts'
import type { DecryptedKey } from '../../resources/byok/decrypted-keys.ts'
import type { Catalog, Endpoint, Model } from '../../resources/models/catalog.ts'
import { FREE_VARIANT } from '../../resources/models/derived.ts'
import type { ExtendedWorld } from '../extension.ts'
import { listUnsupported } from '../kinds/text/understanding.ts'
import { kinds } from '../kinds.ts'
import { buildTiers } from '../plan.ts'
import type { RouterInputs } from './candidates.ts'
import { findViolatedConstraint } from './constraints.ts'
import type { DroppedEndpoint } from './refusal.ts'

/** A model that may serve a call, and those of its endpoints that may. */
export interface RouterCandidate {
  model: Model
  endpoints: Endpoint[]
}

/**
 * Why models are excluded: the words of `excluded_by` (wire reference L.3), and the rules among
 * them.
 */
export interface Exclusions {
  reasons: Set<string>
  rules: Set<Rule>
}

/** What a call requires that not every model supports. */
export interface Requirements {
  /** The tokens of its prompt, an upper estimate. */
  tokens: number
  /** The tokens of its prompt, a lower estimate. */
  leastTokens: number
  /** The tokens that prompt and answer need at least, a lower estimate. */
  contextLength: number
  inputs: string[]
  outputs: string[]
  /** Parameters whose absence would change the answer. */
  parameters: string[]
}

/** Collects what a call requires of a model. */
export function collectRequirements(call: TextCall): Requirements {
  const { tools, params, messages } = call
  const { text, audio, video } = kinds.text.costing.estimateInput(call)
  const tokens = text + audio + video
  const blocks = messages.flatMap(message => message.blocks)
  const unread = blocks.filter(block => block.type !== 'file' || !block.parsed)
  const blockTypes = new Set(unread.map(({ type }) => type))
  const leastTokens = Math.ceil(tokens * MIN_SHARE)
  return {
    ...{ tokens, leastTokens },
    contextLength: leastTokens + (params.max_tokens ?? 1),
    inputs: INPUTS.filter(type => blockTypes.has(type)),
    outputs: params.modalities ?? ['text'],
    parameters: [
      ...(tools.length > 0 ? ['tools'] : []),
      ...(params.response_format?.type.startsWith('json') ? ['response_format'] : []),
    ],
  }
}

// The estimate takes three bytes for a token; ordinary text has four. A prompt that is refused here
// fits nowhere.
const MIN_SHARE = 3 / 4

const INPUTS = ['image', 'audio', 'video', 'file'] as const

/**
 * Lists the models that may serve this call by everything that a plan checks. They are callable
 * with a key of the gateway or the caller, meet the call's constraints and the guardrails' rules,
 * and meet its requirements. `findExclusion` may name another reason against one. The reasons
 * against the others are added to `exclusions`.
 */
export function listRouterCandidates(
  world: ExtendedWorld,
  models: Model[],
  inputs: RouterInputs,
  requirements: Requirements,
  exclusions: Exclusions,
  findExclusion: (model: Model) => string | undefined = () => undefined,
): RouterCandidate[] {
  const candidates: RouterCandidate[] = []
  for (const model of models) {
    if (!hasUsableCredential(model, inputs.byokKeys)) continue
    const reason = findMissingModality(model, requirements) ?? findExclusion(model)
    if (reason) exclusions.reasons.add(reason)
    const endpoints = reason
      ? NONE
      : listAllowedEndpoints(world, model, inputs, requirements, exclusions)
    if (endpoints.length > 0) candidates.push({ model, endpoints })
  }
  return candidates
}

const NONE: Endpoint[] = []

function listAllowedEndpoints(
  world: ExtendedWorld,
  model: Model,
  { call, byokKeys, rules }: RouterInputs,
  requirements: Requirements,
  exclusions: Exclusions,
): Endpoint[] {
  const withheldEndpoints: DroppedEndpoint[] = []
  const tiers = buildTiers(world, model, call, { byokKeys, dropped: withheldEndpoints })
  for (const { excludedBy: reason } of withheldEndpoints) exclusions.reasons.add(reason)
  return tiers.flat().filter(endpoint => {
    const reason =
      findViolatedConstraint(endpoint, model, 'text', call) ??
      findMissingFeature(endpoint, call, requirements)
    if (reason !== undefined) exclusions.reasons.add(reason)
    return reason === undefined && !isExcludedByRule(rules, endpoint, exclusions)
  })
}

// Most models of the catalogue have no configured provider.
const hasUsableCredential = ({ endpoints }: Model, byokKeys: DecryptedKey[]) =>
  endpoints.some(
    ({ provider }) =>
      provider.configured || byokKeys.some(({ providers }) => providers.has(provider.slug)),
  )

function findMissingModality(
  { input_modalities, output_modalities }: Model,
  { inputs, outputs }: Requirements,
): string | undefined {
  if (!inputs.every(input => input_modalities.includes(input))) return 'input_modalities'
  // A model that outputs images or audio does so without being asked to.
  const hasNoOtherOutput = output_modalities.every(
    output => output === 'text' || outputs.includes(output),
  )
  return hasNoOtherOutput && outputs.every(output => output_modalities.includes(output))
    ? undefined
    : 'output_modalities'
}

function findMissingFeature(
  endpoint: Endpoint,
  call: TextCall,
  { contextLength, parameters }: Requirements,
): string | undefined {
  if (endpoint.context_length !== null && contextLength > endpoint.context_length)
    return 'context_length'
  if (parameters.length === 0) return undefined
  const isMissing = listUnsupported(endpoint, call).some(name => parameters.includes(name))
  return isMissing ? 'require_parameters' : undefined
}

function isExcludedByRule(rules: Rule[], endpoint: Endpoint, exclusions: Exclusions): boolean {
  const rule = rules.find(candidate => candidate.excludes(endpoint))
  if (!rule) return false
  exclusions.reasons.add(rule.excludedBy)
  exclusions.rules.add(rule)
  return true
}

export const isFreeVariant = ({ id }: Model): boolean => id.endsWith(FREE_VARIANT)

/**
 * Finds why a router that is not for free models leaves one of them alone: its calls count against
 * a limit that is checked before a router decides. Undefined without that limit.
 */
export const findFreeLimit = (
  { config: { limits } }: Pick<ExtendedWorld, 'config'>,
  model: Model,
): string | undefined =>
  limits.free_models !== false && isFreeVariant(model) ? 'free_models' : undefined

/**
 * Lists all models that output text, once per catalogue. The sandbox is among them only if no other
 * provider is configured.
 */
export function listTextModels(catalog: Catalog): Model[] {
  const textModels =
    textModelsByCatalog.get(catalog) ??
    [...catalog.models.values()].filter(
      model => isTextModel(model) && (!isSandbox(model) || hasOnlySandbox(catalog)),
    )
  textModelsByCatalog.set(catalog, textModels)
  return textModels
}

const isTextModel = ({ output_modalities }: Model) => output_modalities.includes('text')

const hasOnlySandbox = ({ providers }: Catalog) =>
  [...providers.values()].every(({ configured, protocol }) => !configured || protocol === 'sandbox')

const textModelsByCatalog = new WeakMap<Catalog, Model[]>()

/** Tells whether the model is the sandbox: an echo of this process. */
export const isSandbox = ({ id }: Model): boolean => id.startsWith('sandbox/')
