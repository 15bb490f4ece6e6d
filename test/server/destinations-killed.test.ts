import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { createDestination } from '../../src/observability/destinations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { listIds, listSpans, readAttributes } from '../support/broadcast.ts'
import { openDatabase } from '../support/database.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { startServer } from '../support/server.ts'

const ROUNDS = process.env.GATEWAY_TEST_LONG ? 20 : 3
const CLIENTS = 8
const DESTINATIONS = 3

const data = mkdtempSync(join(tmpdir(), 'gateway-killed-'))
let receivers: Receiver[] = []
afterEach(async () => {
  await Promise.all(receivers.map(receiver => receiver.close()))
  rmSync(data, { recursive: true, force: true })
})

/** Lists the calls that are on record. */
function listRecorded(): string[] {
  const db = openDatabase(data, { readonly: true })
  const rows = db.query('select id from generations').all() as { id: string }[]
  db.close()
  return rows.map(({ id }) => id)
}

/** Lists the providers of the calls on record, those of kills among them. */
function listProviders(): (string | null)[] {
  const db = openDatabase(data, { readonly: true })
  const rows = db.query('select distinct provider_name as name from generations').all()
  db.close()
  return (rows as { name: string | null }[]).map(({ name }) => name)
}

test('D-05 after kill -9 under load every call on record arrives everywhere, under the same ids', async () => {
  receivers = await Promise.all(Array.from({ length: DESTINATIONS }, startReceiver))
  const key = await prepare()
  // It has a price, so that a kill leaves calls that the next start charges.
  const priced = {
    ...{ id: 'acme/echo', name: 'Echo', context_length: 8_000 },
    endpoints: [
      {
        ...{ provider: 'sandbox', model: 'echo' },
        usd_per_million_tokens: { prompt: 1, completion: 1 },
      },
    ],
  }
  const security = { allow_private_urls: receivers.map(({ host }) => host) }
  const config = { security, models: [priced] }
  const answered: string[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const server = await startServer({ data, config })
    const killed = Promise.withResolvers<void>()
    const kill = () => killed.resolve(server.kill())
    const planned = planKill(round, kill)
    const clients = Array.from({ length: CLIENTS }, async () => {
      for (let id = await ask(server.url, key); id !== null; id = await ask(server.url, key)) {
        answered.push(id)
        planned.onAnswer()
      }
    })
    await killed.promise
    planned.stop()
    await Promise.all(clients)
  }
  expect(readdirSync(join(data, 'spool'))).not.toEqual([])
  const server = await startServer({ data, config })
  const recorded = listRecorded()
  expect(answered.filter(id => !recorded.includes(id))).toEqual([])
  expect(answered.length).toBeGreaterThanOrEqual(ROUNDS)
  for (const receiver of receivers) await waitForAll(receiver, recorded)
  await server.kill()
  for (const receiver of receivers) {
    const told = receiver.requests.flatMap(({ body }) => listTrees(body))
    expect(recorded.filter(id => !told.some(tree => tree.id === id))).toEqual([])
    expect(told.filter(({ id }) => !recorded.includes(id))).toEqual([])
    // One that came twice has the ids of its trace and its spans both times.
    const trees = new Set(told.map(tree => JSON.stringify(tree)))
    expect(trees.size).toBe(recorded.length)
  }
  expect(listProviders()).toEqual(['Sandbox'])
  if (process.env.GATEWAY_TEST_LONG) printResult(recorded, answered.length)
}, 600_000)

/**
 * Kills in each round at another point: once when so many calls were answered, once when a
 * destination has got a request and was not heard yet.
 */
function planKill(round: number, kill: () => void) {
  const receiver = receivers[round % receivers.length]
  let left = round % 2 === 0 ? 5 + 7 * round : Number.POSITIVE_INFINITY
  if (round % 2 === 1 && receiver)
    receiver.answer = () => {
      kill()
      return 'hang'
    }
  return {
    onAnswer: () => {
      left -= 1
      if (left === 0) kill()
    },
    stop: () => {
      if (receiver) receiver.answer = () => ({ status: 200 })
    },
  }
}

function printResult(recorded: string[], answered: number): void {
  const came = receivers.map(({ requests }) => requests.flatMap(({ body }) => listIds(body)).length)
  const twice = came.map(count => count - recorded.length)
  process.stdout.write(
    `${ROUNDS} kills, ${DESTINATIONS} destinations: ${answered} calls answered, ` +
      `${recorded.length} on record, 0 missing; came again: ${twice.join(', ')}\n`,
  )
}

/** Lists each call of a body with the ids of its trace and its spans. */
function listTrees(body: string): { id: string; spans: string[] }[] {
  const byTrace = Map.groupBy(listSpans(body), ({ traceId }) => traceId)
  return Array.from(byTrace.values(), spans => ({
    id: String(spans[0] && readAttributes(spans[0])['gen_ai.response.id']),
    spans: spans.map(({ traceId, spanId }) => `${traceId} ${spanId}`),
  }))
}

/** Makes a key, and a destination for each receiver. */
async function prepare(): Promise<string> {
  const gateway = await openGateway({ data })
  gateway.config.security.allow_private_urls.push(...receivers.map(({ host }) => host))
  const operator = getOperator(gateway)
  await updateWorkspace(gateway, operator, gateway.memory.owner.workspace_id, {
    is_observability_broadcast_enabled: true,
  })
  for (const { url } of receivers)
    await createDestination(gateway, operator, { type: 'webhook', name: 'hook', config: { url } })
  const { key } = await createKey(gateway, operator, { name: 'k' })
  await gateway.close()
  return key
}

/** Makes a call and returns its id; null once the server is gone. */
const ask = (url: string, key: string): Promise<string | null> =>
  fetch(`${url}/api/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'acme/echo', messages: [{ role: 'user', content: 'Hi' }] }),
  })
    .then(async response => ((await response.json()) as { id: string }).id)
    .catch(() => null)

async function waitForAll(receiver: Receiver, ids: string[]): Promise<void> {
  const isMissing = () => {
    const told = new Set(receiver.requests.flatMap(({ body }) => listIds(body)))
    return ids.some(id => !told.has(id))
  }
  while (isMissing()) await receiver.waitFor(receiver.requests.length + 1)
}
