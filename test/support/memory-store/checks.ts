import { invalid, notFound } from '../../../src/base/errors.ts'
import type { Memory } from './memory.ts'

const isLive = ({ workspaces }: Memory, id: string) => workspaces.get(id)?.deleted_at === null

/** Throws 400 if there is no such workspace to create something in. */
export function mustBeLive(memory: Memory, id: string): void {
  if (!isLive(memory, id))
    throw invalid('workspace_id: expected a workspace that exists', 'workspace_id')
}

/** Throws 404 if there is no such workspace to change. */
export function mustBeThere(memory: Memory, id: string): void {
  if (!isLive(memory, id)) throw notFound('Workspace not found')
}
