import type { OpenedKey } from '../../catalog/byok/opened.ts'
import type { Catalog, Endpoint, Model } from '../../catalog/models.ts'
import type { TextCall } from '../../language/call.ts'
import type { Rule } from '../../policy/rules.ts'
import { listUnsupported } from '../kinds/text/understanding.ts'
import { kinds } from '../kinds.ts'
import { turnsOf } from '../plan.ts'
import type { Session } from '../traffic.ts'
import type { InferenceWorld } from '../world.ts'
import type { Dropped } from './refusal.ts'
import { forbidding } from './wishes.ts'

/** What planning needs in addition to the call. */
export interface Held {
  /** The provider keys that may be used for the call. */
  own: OpenedKey[]
  rules: Rule[]
  session: Session | null
  /** The id of the endpoint that answered the previous step. */
  at?: string
}

/** A call for which a router picks a model, and the other inputs of planning. */
export interface Asked extends Held {
  call: TextCall
}

/** A model that may serve a call, and those of its endpoints that may. */
export interface Choice {
  model: Model
  endpoints: Endpoint[]
}

/**
 * Why models are excluded: the words of `excluded_by` (wire reference L.3), and the rules among
 * them.
 */
export interface Excluded {
  by: Set<string>
  rules: Set<Rule>
}

/** What a call requires that not every model supports. */
export interface Needs {
  /** The tokens of its prompt, an upper estimate. */
  tokens: number
  /** The tokens that prompt and answer need at least, a lower estimate. */
  room: number
  inputs: string[]
  outputs: string[]
  /** Parameters whose absence would change the answer. */
  parameters: string[]
}

/** Collects what a call requires of a model. */
export function needsOf(call: TextCall): Needs {
  const { tools, params, turns } = call
  const { text, audio, video } = kinds.text.costing.estimateInput(call)
  const tokens = text + audio + video
  const types = new Set(turns.flatMap(({ blocks }) => blocks.map(({ type }) => type)))
  return {
    tokens,
    room: Math.ceil(tokens * LEAST_SHARE) + (params.max_tokens ?? 1),
    inputs: INPUTS.filter(type => types.has(type)),
    outputs: params.modalities ?? ['text'],
    parameters: [
      ...(tools.length > 0 ? ['tools'] : []),
      ...(params.response_format?.type.startsWith('json') ? ['response_format'] : []),
    ],
  }
}

// The estimate takes three bytes for a token; ordinary text has four. A prompt that is refused here
// fits nowhere.
const LEAST_SHARE = 3 / 4

const INPUTS = ['image', 'audio', 'video', 'file'] as const

/**
 * Lists the models that may serve this call by everything that a plan checks. They are callable
 * with a key of the gateway or the caller, meet the call's constraints and the guardrails' rules,
 * and meet its requirements. `findExclusion` may name another reason against one. The reasons
 * against the others are added to `exclusions`.
 */
export function choicesAmong(
  gateway: InferenceWorld,
  models: Model[],
  asked: Asked,
  needs: Needs,
  excluded: Excluded,
  barred: (model: Model) => string | undefined = () => undefined,
): Choice[] {
  const choices: Choice[] = []
  for (const model of models) {
    if (!isCallable(model, asked.own)) continue
    const lacking = lackingIn(model, needs) ?? barred(model)
    if (lacking) excluded.by.add(lacking)
    const endpoints = lacking ? NONE : endpointsFor(gateway, model, asked, needs, excluded)
    if (endpoints.length > 0) choices.push({ model, endpoints })
  }
  return choices
}

const NONE: Endpoint[] = []

function endpointsFor(
  gateway: InferenceWorld,
  model: Model,
  { call, own, rules }: Asked,
  needs: Needs,
  excluded: Excluded,
): Endpoint[] {
  const withheld: Dropped[] = []
  const turns = turnsOf(gateway, model, own, withheld)
  for (const { by } of withheld) excluded.by.add(by)
  return turns.flat().filter(endpoint => {
    const by = forbidding(endpoint, model, 'text', call) ?? missingAt(endpoint, call, needs)
    if (by !== undefined) excluded.by.add(by)
    return by === undefined && !isRuledOut(rules, endpoint, excluded)
  })
}

// Most models of the catalogue have no configured provider.
const isCallable = ({ endpoints }: Model, own: OpenedKey[]) =>
  endpoints.some(
    ({ provider }) =>
      provider.configured || own.some(({ providers }) => providers.has(provider.slug)),
  )

function lackingIn(
  { input_modalities, output_modalities }: Model,
  { inputs, outputs }: Needs,
): string | undefined {
  if (!inputs.every(input => input_modalities.includes(input))) return 'input_modalities'
  // A model that outputs images or audio does so without being asked to.
  const isWanted = output_modalities.every(output => output === 'text' || outputs.includes(output))
  return isWanted && outputs.every(output => output_modalities.includes(output))
    ? undefined
    : 'output_modalities'
}

function missingAt(
  endpoint: Endpoint,
  call: TextCall,
  { room, parameters }: Needs,
): string | undefined {
  if (endpoint.context_length !== null && room > endpoint.context_length) return 'context_length'
  if (parameters.length === 0) return undefined
  const isMissing = listUnsupported(endpoint, call).some(name => parameters.includes(name))
  return isMissing ? 'require_parameters' : undefined
}

function isRuledOut(rules: Rule[], endpoint: Endpoint, excluded: Excluded): boolean {
  const rule = rules.find(one => one.excludes(endpoint))
  if (!rule) return false
  excluded.by.add(rule.by)
  excluded.rules.add(rule)
  return true
}

/**
 * Lists all models that output text, once per catalogue. The sandbox is among them only if no other
 * provider is configured.
 */
export function textModels(catalog: Catalog): Model[] {
  const known =
    texts.get(catalog) ??
    [...catalog.models.values()].filter(
      model => isForText(model) && (!isSandbox(model) || isBare(catalog)),
    )
  texts.set(catalog, known)
  return known
}

const isForText = ({ output_modalities }: Model) => output_modalities.includes('text')
const isBare = ({ providers }: Catalog) =>
  [...providers.values()].every(({ configured, protocol }) => !configured || protocol === 'sandbox')

const texts = new WeakMap<Catalog, Model[]>()

/** Tells whether the model is the sandbox: an echo of this process. */
export const isSandbox = ({ id }: Model): boolean => id.startsWith('sandbox/')
