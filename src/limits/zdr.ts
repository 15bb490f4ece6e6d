import type { Config } from '../config.ts'
import type { CallBase } from '../language/call.ts'
import { findRouter } from '../language/routing.ts'
import type { Catalog, Endpoint, Model } from '../resources/models/catalog.ts'

/**
 * The groups of models for which zero data retention is required separately, by their authors. The
 * last is for all other authors.
 */
export interface ZdrGroup {
  field:
    | 'enforce_zdr_anthropic'
    | 'enforce_zdr_openai'
    | 'enforce_zdr_google'
    | 'enforce_zdr_xai'
    | 'enforce_zdr_other'
  author: string | null
  /**
   * Clouds that the public service keeps available in the group, whatever is known of them here
   * (wire reference H.4).
   */
  exemptProviders: string[]
}

export const ZDR_GROUPS: ZdrGroup[] = [
  {
    field: 'enforce_zdr_anthropic',
    author: 'anthropic',
    exemptProviders: ['bedrock', 'vertex', 'vertex-anthropic'],
  },
  { field: 'enforce_zdr_openai', author: 'openai', exemptProviders: ['azure'] },
  { field: 'enforce_zdr_google', author: 'google', exemptProviders: ['vertex'] },
  { field: 'enforce_zdr_xai', author: 'x-ai', exemptProviders: [] },
  { field: 'enforce_zdr_other', author: null, exemptProviders: [] },
]

const AUTHORS = ZDR_GROUPS.map(({ author }) => author)

/** Returns whether the endpoint belongs to the group and may keep what it is sent. */
export function isRetainedInGroup(
  { author, exemptProviders }: ZdrGroup,
  { model, provider, data_policy }: Endpoint,
): boolean {
  return (
    data_policy.retention_days !== 0 &&
    findGroupAuthor(model) === author &&
    !exemptProviders.includes(provider.slug)
  )
}

/** What knows which model a name stands for, and which names are those of routers. */
export interface KnownModels {
  catalog: Pick<Catalog, 'models'>
  config: Pick<Config, 'service_name'>
}

/** Returns whether a model belongs to one of these groups, by any of its names. */
export function isInZdrGroup(
  world: KnownModels,
  groups: ZdrGroup[] | undefined,
  name: string,
): boolean {
  if (!groups) return false
  const wanted = findGroupAuthor(findModel(world, name)?.id ?? name)
  return groups.some(({ author }) => author === wanted)
}

/** Returns whether nobody but its endpoint may keep what a call says: it, or one of its models. */
export const retainsNothing = (
  world: KnownModels,
  groups: ZdrGroup[] | undefined,
  { routing, models }: Pick<CallBase, 'routing' | 'models'>,
): boolean => routing.zdr === true || models.some(name => isInZdrGroup(world, groups, name))

/** Returns the same before it is known which models a router picks for the call: it may pick any. */
export const mayRetainNothing = (
  world: KnownModels,
  groups: ZdrGroup[] | undefined,
  call: Pick<CallBase, 'routing' | 'models'>,
): boolean =>
  retainsNothing(world, groups, call) ||
  (groups !== undefined && call.models.some(name => isRouter(world, name)))

const isRouter = (world: KnownModels, name: string): boolean =>
  findModel(world, name) === undefined &&
  findRouter(world.config, removeVariant(name)) !== undefined

/** Finds the model of a name, with or without a variant. */
const findModel = ({ catalog: { models } }: KnownModels, name: string): Model | undefined =>
  models.get(name) ?? models.get(removeVariant(name))

const removeVariant = (name: string): string => name.replace(/:[^:]*$/, '')

function findGroupAuthor(model: string): string | null {
  const author = model.slice(0, model.indexOf('/'))
  return AUTHORS.includes(author) ? author : null
}
