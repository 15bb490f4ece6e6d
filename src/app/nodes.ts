import { conflict, invalid, notFound, unavailable } from '../base/errors.ts'
import { recoverCalls } from '../engine/recover.ts'
import type { HeldCall } from '../limits/ledger.ts'
import type { Actor } from '../resources/actor.ts'
import { defineAudit } from '../resources/audit/entry.ts'
import type { NodeStore, StoredNode } from '../store/postgres/nodes.ts'
import type { Finding } from './doctor.ts'
import type { Gateway } from './gateway.ts'

/** A server of the database, as operators see it. */
interface ListedNode extends StoredNode {
  state: 'serving' | 'draining' | 'silent' | 'ended'
}

/** In seconds: whoever was heard of since is there. */
const THERE = 5

/** Lists the servers of the database, those that are there first. Throws 400 without Postgres. */
export async function listNodes({ store }: Gateway): Promise<{ data: ListedNode[] }> {
  const nodes = await requireNodes(store).list()
  return { data: nodes.map(node => ({ ...node, state: readState(node) })) }
}

function readState({ left_at, silent_seconds, is_draining }: StoredNode): ListedNode['state'] {
  if (left_at !== null) return 'ended'
  if (silent_seconds > THERE) return 'silent'
  return is_draining ? 'draining' : 'serving'
}

/**
 * Ends a server that has ended, perhaps without a word: what its calls had cost when it was last heard
 * of is charged, and what it had on lease comes back. One that was heard of in the last 90 seconds may
 * only stand still, and spend that when it goes on, unless the operator knows that its process has
 * ended. Throws 400 without Postgres, 404 for an unknown one, and 409 for one that may go on.
 */
export async function forgetNode(
  gateway: Gateway,
  actor: Actor,
  id: string,
  { hasEnded = false }: { hasEnded?: boolean | undefined } = {},
): Promise<{ data: { id: string } }> {
  const node = await findNode(gateway, id)
  if (node.state === 'serving' || node.state === 'draining')
    throw conflict(
      `${node.name} (${id}) serves: gateway nodes drain ${id} stops it. One that was killed is known ` +
        `to be silent after ${THERE} s`,
    )
  const nodes = requireNodes(gateway.store)
  // Nothing is charged or lent again before it can spend no more.
  if (!(await nodes.expel(node, hasEnded ? THERE : nodes.lostAfter)))
    throw hasEnded ? restarted(node) : refuseToForget(node, nodes)
  await settleCalls(gateway, await nodes.readRunning(id))
  if (!(await nodes.forget(node, auditNode(gateway, actor, node, null)))) throw restarted(node)
  return { data: { id } }
}

const refuseToForget = ({ id, name, silent_seconds }: ListedNode, { lostAfter }: NodeStore) =>
  conflict(
    `${name} (${id}) was heard of ${Math.floor(silent_seconds)} s ago: it may only stand still, and ` +
      'spend what it has on lease when it goes on. It can be forgotten in ' +
      `${Math.max(1, Math.ceil(lostAfter - silent_seconds))} s, or now if its process has ended: --ended`,
  )

/**
 * Has a server take no more calls, finish those that run, give back what it has on lease, and end, as
 * a signal does; that of this data directory where none is named. Returns once it has heard so. Throws
 * 400 without Postgres, 404 for an unknown one, 409 for one that does not serve or drains already, and
 * 503 for one that does not answer: it drains as soon as it hears of it.
 */
export async function drainNode(
  gateway: Gateway,
  actor: Actor,
  named?: string,
): Promise<{ data: { id: string } }> {
  const nodes = requireNodes(gateway.store)
  const id = named ?? nodes.ownId
  if (id === '')
    throw notFound('No server serves from this data directory: name one of gateway nodes list')
  const node = await findNode(gateway, id)
  if (node.state !== 'serving') throw conflict(`${node.name} (${id}) ${describeRefusal(node)}`)
  const entry = auditNode(gateway, actor, node, { ...node, state: 'draining' }, 'drain')
  if (!(await nodes.drain(node, entry))) throw restarted(node)
  await waitForDrain(gateway, node)
  return { data: { id } }
}

function describeRefusal({ id, state, silent_seconds }: ListedNode): string {
  if (state === 'ended') return 'has ended'
  if (state === 'draining') return 'drains already'
  const seconds = Math.round(silent_seconds)
  return `does not answer: it was heard of ${seconds} s ago. If it has ended: gateway nodes forget ${id} --ended`
}

/** In milliseconds: between two looks whether a server has heard, and how long that may take. */
const LOOK = 100
const PATIENCE = 3_000

async function waitForDrain(gateway: Gateway, node: ListedNode): Promise<void> {
  const { seen_at } = await findNode(gateway, node.id)
  for (let waited = 0; waited < PATIENCE; waited += LOOK) {
    await Bun.sleep(LOOK)
    const now = await findNode(gateway, node.id)
    if (now.seen_at !== seen_at || now.left_at !== null) return
  }
  throw unavailable(`${node.name} (${node.id}) does not answer: it drains when it hears of it`)
}

/** Throws 404. */
async function findNode(gateway: Gateway, id: string): Promise<ListedNode> {
  const { data } = await listNodes(gateway)
  const node = data.find(one => one.id === id)
  if (!node) throw notFound(`There is no node ${id}: gateway nodes list shows them`)
  return node
}

const restarted = ({ name, id }: ListedNode) => conflict(`${name} (${id}) is heard of again`)

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
  const nodes = data.filter(({ state }) => state === 'serving' || state === 'draining')
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
