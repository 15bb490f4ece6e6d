import { expect } from 'bun:test'
import { examineGateway } from '../../src/app/doctor.ts'
import type { Gateway } from '../../src/app/gateway.ts'
import { hashSecret } from '../../src/base/credential.ts'
import { listDeadCalls } from '../../src/engine/recover.ts'
import { type Account, openLedger } from '../../src/limits/ledger.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { listHeldCalls } from './books.ts'
import { parseStream, waitUntil } from './chat.ts'
import { countRunning } from './resting-books.ts'
import type { LocalServer } from './server.ts'
import type { LoopStage } from './tool-loop.ts'

/** An answer that a client has read to its end. */
export interface Acknowledged {
  id: string
  body: string
  /** All words of the provider, of which a streamed answer may have only the first. */
  words: string
}

/**
 * Lists which of the invariants do not hold in a server at rest, given all answers of calls that
 * succeeded or broke off: I1 counters are the sums of the ledger, and nothing of it was changed;
 * I2 nothing is held; I4 nothing is in flight; I6 it is alive; I8 each call is on record once, and
 * its charges are its cost; P4 an answer that says that it is finished is.
 */
export async function findBrokenInvariants(
  server: LocalServer,
  answers: Acknowledged[],
): Promise<string[]> {
  await rest(server)
  const checks: [name: string, check: () => Promise<boolean>][] = [
    ['I1', () => haveCountersTheirSums(server)],
    ['I2', () => isNothingHeld(server)],
    ['I4', async () => isNothingInFlight(server)],
    ['I6', async () => (await fetch(`${server.url}/health`)).status === 200],
    ['I8', () => areOnRecordOnce(server, answers)],
    ['P4', async () => answers.every(isFinishedIfItSaysSo)],
  ]
  const broken: string[] = []
  for (const [name, check] of checks) if (!(await check())) broken.push(name)
  return broken
}

/** Expects that every invariant holds, after whatever fault. */
export async function expectBooksHold(
  server: LocalServer,
  answers: Acknowledged[] = [],
): Promise<void> {
  expect(await findBrokenInvariants(server, answers)).toEqual([])
}

/**
 * Expects that a fault has left nothing behind, once its calls have ended: the gateway takes calls,
 * nothing runs, is held, waits to be written or told, or is noted as begun, and its books are right.
 */
export async function expectAtRest(gateway: Gateway): Promise<void> {
  await gateway.recorder.flush()
  await gateway.deliveries.rest()
  const { recorder, traffic, videos, deliveries, blobs, memory } = gateway
  const left = {
    ...countRunning(gateway),
    unhealthy: recorder.healthy ? 0 : 1,
    overload: traffic.admission.findSaturation() ?? 0,
    unwritten: recorder.listPending().length,
    undelivered: sum(deliveries.list(), ({ waiting }) => waiting),
    jobs: videos.size,
    notes: sum([...memory.workspaces.values()], ({ id }) => blobs.countDrafts(id)),
    dead: (await listDeadCalls(gateway)).length,
  }
  const faults = (await examineGateway(gateway)).data.filter(({ ok }) => !ok)
  expect([Object.entries(left).filter(([, count]) => count !== 0), faults]).toEqual([[], []])
}

/**
 * Expects that a stage is at rest, and that each of its calls was charged once for each of its steps,
 * and what its record says.
 */
export async function expectBooks({
  gateway,
  generations,
}: Pick<LoopStage, 'gateway' | 'generations'>): Promise<void> {
  await expectAtRest(gateway)
  for (const { id, total_cost, steps } of generations) {
    const charges = await gateway.store.ledger.listCharges(id)
    const cost = total_cost ?? 0n
    expect(charges.reduce((total, { nanos }) => total + nanos, 0n)).toBe(cost)
    expect(new Set(charges.map(({ step }) => step)).size).toBe(charges.length)
    if (steps.length > 0)
      expect(steps.reduce((total, step) => total + (step.cost ?? 0n), 0n)).toBe(cost)
  }
}

const sum = <Item>(items: Item[], count: (item: Item) => number): number =>
  items.reduce((total, item) => total + count(item), 0)

/** Lists which of the calls that have gone out are in no journal: a kill would lose them. */
export function listUnjournaled({ data }: LocalServer, ids: string[]): string[] {
  const journaled = new Set(listHeldCalls(data).map(({ id }) => id))
  return ids.filter(id => !journaled.has(id))
}

async function rest({ gateway }: LocalServer): Promise<void> {
  await waitUntil(() => gateway.traffic.calls.size === 0)
  await gateway.recorder.flush()
}

const listAccounts = ({ gateway, inference_key }: LocalServer): Account[] => {
  const { workspace_id } = getOperator(gateway)
  return [`key ${hashSecret(inference_key)}`, `workspace ${workspace_id}`, 'all']
}

async function haveCountersTheirSums(server: LocalServer): Promise<boolean> {
  const { gateway } = server
  const anew = await openLedger(gateway.store.ledger, gateway.clock)
  const isCounted = (account: Account) =>
    gateway.ledger.getSpent(account, null, false) === anew.getSpent(account, null, false)
  const { data } = await examineGateway(gateway)
  return listAccounts(server).every(isCounted) && data.every(({ ok }) => ok)
}

async function isNothingHeld(server: LocalServer): Promise<boolean> {
  const { gateway } = server
  const dead = await listDeadCalls(gateway)
  const isHeld = (account: Account) => gateway.ledger.getHeld(account, true) !== 0n
  return dead.length === 0 && !listAccounts(server).some(isHeld)
}

function isNothingInFlight({ gateway: { traffic } }: LocalServer): boolean {
  return traffic.admission.calls.used === 0 && traffic.admission.memory.used === 0
}

async function areOnRecordOnce({ gateway }: LocalServer, answers: Acknowledged[]) {
  for (const { id } of answers) {
    const record = await gateway.store.generations.byId(id)
    const charges = await gateway.store.ledger.listCharges(id)
    const charged = charges.reduce((sum, { nanos }) => sum + nanos, 0n)
    if (!record || charged !== record.total_cost) return false
  }
  return true
}

function isFinishedIfItSaysSo({ body, words }: Acknowledged): boolean {
  const { text, errors, events } = parseStream(body)
  const reasons = events.flatMap(one =>
    typeof one === 'string' ? [] : (one.choices ?? []).map(choice => choice.finish_reason),
  )
  return errors.length > 0 || !reasons.includes('stop') || text === words
}
