import type { ModelConfig } from '../../config.ts'
import { isFree } from '../prices.ts'
import { isHomeOf } from '../providers.ts'
import type { Endpoint, Model } from './catalog.ts'

// Models that are made of others, or of a name alone: free variants, snapshots, unlisted ones.

/** The suffix of a slug that asks for a free variant. */
export const FREE_VARIANT = ':free'

/** Returns whether a call of the endpoint costs nothing. */
export const isFreeEndpoint = ({ prices }: Endpoint): boolean => prices !== null && isFree(prices)

/**
 * Builds the free variant of a model from its endpoints that cost nothing (wire reference K.4).
 * Returns undefined where all of them cost something.
 */
export function buildFreeVariant(model: Model): Model | undefined {
  const id = model.id + FREE_VARIANT
  const free = changeEndpoints(model, endpoint =>
    isFreeEndpoint(endpoint) ? { ...endpoint, id: `${endpoint.id} free`, model: id } : undefined,
  )
  return free.endpoints.length > 0 ? { ...free, id, name: `${model.name} (free)` } : undefined
}

/** Returns the model with other endpoints in every dialect. `change` leaves out with undefined. */
export function changeEndpoints(
  { spoken, ...model }: Model,
  change: (endpoint: Endpoint) => Endpoint | undefined,
): Model {
  const pick = (list: Endpoint[]): Endpoint[] => list.flatMap(endpoint => change(endpoint) ?? [])
  const inDialects = Object.entries(spoken ?? {}).map(([dialect, list]) => [dialect, pick(list)])
  return {
    ...model,
    endpoints: pick(model.endpoints),
    ...(spoken ? { spoken: Object.fromEntries(inDialects) } : {}),
  }
}

/** A model's name without its date, and that date as the name has it. */
export interface DatedName {
  family: string
  /** From the hyphen before it on: `-2024-08-06`, `-preview-05-06`. */
  date: string
}

/**
 * The days by which OpenAI, Anthropic and Google tell a model's snapshots apart. Four figures alone
 * are none: they stand for other models too, at other prices.
 */
const DATE =
  /-20[2-9]\d-(?:0[1-9]|1[0-2])-[0-3]\d$|-20[2-9]\d(?:0[1-9]|1[0-2])[0-3]\d$|-(?:0[1-9]|1[0-2])-(?:20[2-9]\d|[0-3]\d)$/
const PREVIEW = /-(?:preview|exp)$/

/**
 * Splits a dated name into those of the families that it may be of, the likeliest first. A preview
 * belongs to the family that was released, too. None for a name without a date.
 */
export function splitDatedName(name: string): DatedName[] {
  const at = name.length > LONGEST_NAME ? -1 : name.search(DATE)
  if (at === -1) return []
  const [family, date] = [name.slice(0, at), name.slice(at)]
  const preview = PREVIEW.exec(family)
  const dated = { family, date }
  if (!preview) return /^-\d\d-\d\d$/.test(date) ? [] : [dated]
  const released = { family: family.slice(0, preview.index), date: preview[0] + date }
  return [dated, released]
}

/**
 * Builds a snapshot of a model: itself, at the endpoints that can be told which. Those are the
 * author's own, resellers that take public names, and names that have this very date; all of them
 * where the catalogue has the dated name for the model. Undefined where there is none.
 */
export function buildSnapshot(model: Model, date: string, isAlias: boolean): Model | undefined {
  const snapshot = changeEndpoints(
    model,
    endpoint => pinEndpoint(model.id, endpoint, date) ?? (isAlias ? endpoint : undefined),
  )
  return snapshot.endpoints.length > 0 ? snapshot : undefined
}

/** Returns whether the author of a model serves it. */
export const isServedAtHome = ({ id, endpoints }: Model): boolean =>
  endpoints.some(({ provider }) => isHomeOf(provider.slug, getAuthor(id)))

const getAuthor = (id: string): string => id.slice(0, id.indexOf('/'))

function pinEndpoint(id: string, endpoint: Endpoint, date: string): Endpoint | undefined {
  const { provider, upstreamModel } = endpoint
  const base = upstreamModel.replace(DATE, '')
  const isHome = isHomeOf(provider.slug, getAuthor(id)) && isSameName(base, removeAuthor(id))
  if (isHome || upstreamModel === id)
    return { ...endpoint, id: `${endpoint.id} ${date}`, upstreamModel: base + date }
  const digits = date.replaceAll('-', '')
  return digits.length === 8 && upstreamModel.replaceAll('-', '').includes(digits)
    ? endpoint
    : undefined
}

const removeAuthor = (id: string): string => id.slice(id.indexOf('/') + 1)

// An operator's own name of a deployment takes no date.
const isSameName = (one: string, other: string): boolean =>
  one.replaceAll('.', '-') === other.replaceAll('.', '-')

/** Returns whether an entry of the config stands for all names of an author: `acme/*`. */
export const isPattern = ({ id }: Pick<ModelConfig, 'id'>): boolean => id.endsWith('/*')

/** A name that no list has: what stands before its first slash, and the provider's own name. */
interface UnlistedName {
  author: string
  name: string
}

/**
 * Reads a name that may be passed on. Undefined where it could not be one: it goes into addresses,
 * and a known variant at its end is none of the name.
 */
export function readUnlistedName(slug: string): UnlistedName | undefined {
  if (slug.length > LONGEST_NAME || VARIANT.test(slug) || !NAME.test(slug)) return undefined
  const slash = slug.indexOf('/')
  return { author: slug.slice(0, slash), name: slug.slice(slash + 1) }
}

const LONGEST_NAME = 200
// No part of it is `.` or `..`.
const NAME = /^[\w-]+(\/(?!\.+(\/|$))[\w.:@+-]+)+$/
const VARIANT = /:(free|extended|nitro|floor|exacto|online|thinking)$/

/** Models that a provider serves only in another of its protocols. */
const PROTOCOLS: [provider: RegExp, model: RegExp, protocol: string][] = [
  [/^(openai|azure)$/, /^(?!.*image).*(-pro$|codex|deep-research)/, 'openai-responses'],
]

/** Finds the protocol in which a provider serves a model, by its name; undefined for the usual. */
export const findProtocol = (provider: string, model: string): string | undefined =>
  PROTOCOLS.find(([at, name]) => at.test(provider) && name.test(model))?.[2]

/** Fills the star in the endpoints of a pattern. */
export const fillPattern = (pattern: ModelConfig, id: string, name: string): ModelConfig => ({
  ...pattern,
  id,
  endpoints: pattern.endpoints.map(one => ({ ...one, model: one.model.replace('*', () => name) })),
})

/** Returns the model with the worst data policy: what its provider does with this one is not known. */
export const distrust = (model: Model): Model =>
  changeEndpoints(model, endpoint => ({
    ...endpoint,
    data_policy: { training: true, retention_days: null },
  }))
