import { conflict, invalid, notFound } from '../base/errors.ts'
import { recoverCalls } from '../engine/recover.ts'
import type { HeldCall } from '../limits/ledger.ts'
import type { Actor } from '../resources/actor.ts'
import type { NodeStore, StoredNode } from '../store/postgres/nodes.ts'
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
 * Ends a server that has ended without a word: what its calls had cost when it was last heard of is
 * charged, and what it had on lease comes back. Throws 400 without Postgres, 404 for an unknown one,
 * and 409 for one that is heard of.
 */
export async function forgetNode(
  gateway: Gateway,
  _actor: Actor,
  id: string,
): Promise<{ data: { id: string } }> {
  const { data } = await listNodes(gateway)
  const node = data.find(one => one.id === id)
  if (!node) throw notFound(`There is no node ${id}: gateway nodes list shows them`)
  if (node.state === 'serving') throw conflict(`${node.name} (${id}) serves: stop it there`)
  const nodes = requireNodes(gateway.store)
  await settleCalls(gateway, await nodes.readRunning(id))
  await nodes.forget(id)
  return { data: { id } }
}

/** Settles calls of a process that is gone, as its own directory would. */
async function settleCalls(gateway: Gateway, running: HeldCall[]): Promise<void> {
  if (running.length === 0) return
  const holds = { ...gateway.journal.holds, listCalls: () => running, clear: async () => undefined }
  const journal = { ...gateway.journal, holds: { ...holds, listGarbled: () => [] } }
  await recoverCalls(Object.assign(Object.create(gateway), { journal }))
}

function requireNodes({ nodes }: Gateway['store']): NodeStore {
  if (!nodes)
    throw invalid('There are no nodes without storage.postgres: one server is all there is')
  return nodes
}
