import { notFound } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import { operator } from './actor.ts'
import { createKey } from './keys.ts'

/** A place for keys and rules. Every gateway has a default one. */
export interface Workspace {
  id: string
  name: string
  slug: string
  is_default: boolean
  created_by: string
  created_at: string
  updated_at: string | null
}

/** Remembers workspaces. */
export interface WorkspaceStore {
  all(): Promise<Workspace[]>
  insert(workspace: Workspace): Promise<void>
}

/** Who owns this data directory, and where what names no workspace belongs. */
export interface Owner {
  user_id: string
  workspace_id: string
}

/** The default workspace that every data directory has. */
export const firstWorkspace = (id: string, user_id: string, now: Date): Workspace => ({
  id,
  name: 'Default',
  slug: 'default',
  is_default: true,
  created_by: user_id,
  created_at: now.toISOString(),
  updated_at: null,
})

/** One management key and one inference key, for a data directory that has none yet; undefined where keys exist. Shown once. */
export async function firstKeys(gateway: Gateway) {
  if (gateway.keys.size > 0) return undefined
  const management = await createKey(gateway, operator(gateway), { name: 'management' }, 'management')
  const inference = await createKey(gateway, operator(gateway), { name: 'inference' })
  return { workspace_id: gateway.owner.workspace_id, management_key: management.key, inference_key: inference.key }
}

/** The workspace with this id or slug. Throws 404. */
export function workspaceBy(gateway: Gateway, idOrSlug: string): Workspace {
  const found = gateway.workspaces.get(idOrSlug) ?? [...gateway.workspaces.values()].find(workspace => workspace.slug === idOrSlug)
  if (!found) throw notFound('Workspace not found')
  return found
}
