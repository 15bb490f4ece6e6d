import type { CallBase } from '../language/call.ts'
import type { Endpoint } from '../resources/models/catalog.ts'

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

/** Returns whether a model belongs to one of these groups. */
export const isInZdrGroup = (groups: ZdrGroup[] | undefined, model: string): boolean =>
  groups?.some(({ author }) => author === findGroupAuthor(model)) ?? false

/** Returns whether nobody but its endpoint may keep what a call says: it, or one of its models. */
export const retainsNothing = (
  groups: ZdrGroup[] | undefined,
  { routing, models }: Pick<CallBase, 'routing' | 'models'>,
): boolean => routing.zdr === true || models.some(model => isInZdrGroup(groups, model))

function findGroupAuthor(model: string): string | null {
  const author = model.slice(0, model.indexOf('/'))
  return AUTHORS.includes(author) ? author : null
}
