import type { Model } from '../../catalog/models.ts'
import type { Gateway } from '../../gateway.ts'
import type { Kind, SortKey, Work } from '../call.ts'
import { kinds } from '../kinds.ts'
import type { Stage, Strategy } from '../routing-metadata.ts'
import { unknownModel, wrongEndpoint } from './refusal.ts'

/** The models that a call is for, in the order in which they are tried, and how they were found. */
export interface Wanted {
  models: WantedModel[]
  strategy: Strategy
  stages: Stage[]
}

/** A model, and what its variant wants its endpoints to be sorted by. */
export interface WantedModel {
  model: Model
  sort: SortKey | undefined
}

/**
 * What the names stand for by which a call asks for models; two names of one model are one model. Throws 400 for one that is not in the
 * catalogue or does another kind of work.
 */
export function wantedBy<K extends Kind>(gateway: Gateway, kind: K, { models: slugs }: Work[K]['call']): Wanted {
  const models = new Map<string, WantedModel>()
  for (const slug of slugs) {
    const one = modelMeant(gateway, kind, slug)
    if (!models.has(one.model.id)) models.set(one.model.id, one)
  }
  const [first = ''] = slugs
  return { models: [...models.values()], strategy: strategyOf(gateway, first), stages: [] }
}

/** Variants that are a way of sorting (wire reference K.4). */
const SORTS: Record<string, SortKey> = { ':nitro': 'throughput', ':floor': 'price' }

function modelMeant(gateway: Gateway, kind: Kind, slug: string): WantedModel {
  const { catalog } = gateway
  const known = catalog.models.get(slug)
  const [, base = '', variant = ''] = known ? [] : (/^(.+)(:nitro|:floor)$/.exec(slug) ?? [])
  const model = known ?? catalog.models.get(base)
  if (!model) throw unknownModel(gateway, slug)
  const { isGivenBy, gives } = kinds[kind]
  if (!isGivenBy(model.output_modalities)) throw wrongEndpoint(slug, `gives ${model.output_modalities.join(' and ')}, not ${gives}`)
  return { model, sort: SORTS[variant] }
}

// Another name of a model is an alias of it; one that moves on to the newest of a family says so (wire reference K.4).
function strategyOf({ catalog }: Gateway, slug: string): Strategy {
  if (slug.startsWith('~')) return 'latest'
  const known = catalog.models.get(slug)
  return known && known.id !== slug ? 'alias' : 'direct'
}
