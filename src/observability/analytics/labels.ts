import type { Actor } from '../../resources/actor.ts'
import { canManageAll } from '../../resources/management.ts'
import type { ActivityWorld } from '../activity.ts'
import type { Dimension } from './dimensions.ts'
import type { ResultGroup } from './groups.ts'

/** Returns what people call a value; undefined if they call it as it is. */
type FindLabel = (value: string) => string | undefined

type MakeLabels = (world: ActivityWorld, actor: Actor, ids: string[]) => Promise<FindLabel>

/**
 * How the values of some dimensions are shown: keys, members, workspaces and apps by their names.
 * The addresses of members are the organization's.
 */
const LABELS: Record<string, MakeLabels> = {
  async api_key_id({ memory: { keys } }) {
    return hash => (hash === '' ? 'No key' : keys.get(hash)?.name || keys.get(hash)?.label)
  },
  async workspace({ memory: { workspaces } }) {
    return id => workspaces.get(id)?.name
  },
  async user(world, actor, ids) {
    const members = canManageAll(world, actor) ? await world.store.members.byIds(ids) : []
    const emails = new Map(members.map(({ id, email }) => [id, email]))
    return id => emails.get(id)
  },
  async app({ store }) {
    const apps = await store.rollups.listApps()
    const names = new Map(apps.map(({ id, name }) => [String(id), name]))
    return id => (id === '0' ? 'Unknown' : names.get(id))
  },
}

/** Finds how the values of dimensions in some groups are shown, in the order of the dimensions. */
export const findLabels = (
  world: ActivityWorld,
  actor: Actor,
  dimensions: Dimension[],
  groups: ResultGroup[],
): Promise<(FindLabel | undefined)[]> =>
  Promise.all(
    dimensions.map(async ({ name }, i) => {
      const ids = new Set(groups.map(({ values }) => values[i] ?? ''))
      return LABELS[name]?.(world, actor, [...ids])
    }),
  )
