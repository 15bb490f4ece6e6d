import { conflict, invalid, notFound } from '../base/errors.ts'
import { recoverCalls } from '../engine/recover.ts'
import type { HeldCall } from '../limits/ledger.ts'
import type { Actor } from '../resources/actor.ts'
import { defineAudit } from '../resources/audit/entry.ts'
import type { NodeStore, StoredNode } from '../store/postgres/nodes.ts'
import type { Finding } from './doctor.ts'
import type { Gateway } from './gateway.ts'

/** A server of the database, as operators see it. */
interface ListedNode extends StoredNode {
  state: 'serving' | 'silent' | 'ended'
}

/** In seconds: whoever was heard of since is there. */
const THERE = 5

/** Lists the servers of the database, those that are there first. Throws 400 without Postgres. */
export async function listNodes({ store }: Gateway): Promise<{ data: ListedNode[] }> {
  const nodes = await requireNodes(store).list()
  return { data: nodes.map(node => ({ ...node, state: readState(node) })) }
}

const readState = ({ left_at, silent_seconds }: StoredNode): ListedNode['state'] =>
  left_at !== null ? 'ended' : silent_seconds > THERE ? 'silent' : 'serving'

/**
 * Ends a server that has ended, perhaps without a word: what its calls had cost when it was last heard
 * of is charged, and what it had on lease comes back. Throws 400 without Postgres, 404 for an unknown one,
 * and 409 for one that is heard of.
 */
export async function forgetNode(
  gateway: Gateway,
  actor: Actor,
  id: string,
): Promise<{ data: { id: string } }> {
  const { data } = await listNodes(gateway)
  const node = data.find(one => one.id === id)
  if (!node) throw notFound(`There is no node ${id}: gateway nodes list shows them`)
  if (node.state === 'serving') throw conflict(`${node.name} (${id}) serves: stop it there`)
  const nodes = requireNodes(gateway.store)
  await gateway.store.audit.append(auditNode(gateway, actor, node, null))
  await settleCalls(gateway, await nodes.readRunning(id))
  if (!(await nodes.forget(node))) throw conflict(`${node.name} (${id}) has started again`)
  return { data: { id } }
}

const auditNode = defineAudit<ListedNode>('nodes', {
  identify: ({ id }) => ({ id, workspace_id: null }),
  verbs: { delete: 'forget' },
})

/** Settles calls of a process that is gone, as its own directory would. */
async function settleCalls(gateway: Gateway, running: HeldCall[]): Promise<void> {
  if (running.length === 0) return
  const holds = { ...gateway.journal.holds, listCalls: () => running, clear: async () => undefined }
  const journal = { ...gateway.journal, holds: { ...holds, listGarbled: () => [] } }
  await recoverCalls(Object.assign(Object.create(gateway), { journal }))
}

/**
 * Compares the servers that are there: all should have one version and one config. Throws 400
 * without Postgres.
 */
export async function examineNodes(gateway: Gateway): Promise<Finding> {
  const { data } = await listNodes(gateway)
  const nodes = data.filter(({ state }) => state === 'serving')
  const differing = COMPARED.filter(field => new Set(nodes.map(node => node[field])).size > 1)
  const count = nodes.length === 1 ? '1 server is there' : `${nodes.length} servers are there`
  if (differing.length === 0)
    return { check: 'nodes', ok: true, found: nodes.length > 1 ? `${count}, all alike` : count }
  const list = nodes.map(
    node =>
      `${node.name} (${node.id}) has ${differing.map(field => `${field} ${node[field]}`).join(', ')}`,
  )
  return { check: 'nodes', ok: false, found: `${count}, and they differ: ${list.join('; ')}` }
}

const COMPARED = ['version', 'schema_version', 'config_hash'] as const

function requireNodes({ nodes }: Gateway['store']): NodeStore {
  if (!nodes)
    throw invalid('There are no nodes without storage.postgres: one server is all there is')
  return nodes
}
