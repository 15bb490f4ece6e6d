import type { Endpoint, Model } from '../models.ts'
import { isHomeOf } from '../providers.ts'
import { changeEndpoints } from './free.ts'

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
  const at = name.search(DATE)
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
 * author's own, resellers that take public names, and names that have this very date. Undefined
 * where there is none.
 */
export function buildSnapshot(model: Model, date: string): Model | undefined {
  const snapshot = changeEndpoints(model, endpoint => pinEndpoint(model.id, endpoint, date))
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
