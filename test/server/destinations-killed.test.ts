import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createDestination } from '../../src/core/destinations.ts'
import { openGateway } from '../../src/core/gateway.ts'
import { getOperator } from '../../src/core/identity/actor.ts'
import { createKey } from '../../src/core/identity/keys.ts'
import { updateWorkspace } from '../../src/core/identity/workspaces.ts'
import { openDatabase } from '../support/database.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { startServer } from '../support/server.ts'
import { listIds } from '../support/telling.ts'

const ROUNDS = 3
const CALLS = 40
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

test('D-05 after kill -9 under load every call on record arrives everywhere, under the same id', async () => {
  receivers = await Promise.all(Array.from({ length: DESTINATIONS }, startReceiver))
  const key = await prepare()
  const config = { security: { allow_private_urls: receivers.map(({ host }) => host) } }
  for (let round = 0; round < ROUNDS; round++) {
    const server = await startServer({ data, config })
    const calls = Array.from({ length: CALLS }, (_, i) => ask(server.url, key, `Call ${i}`))
    // Some have ended then, some are being recorded, and some are being delivered.
    await Promise.race([Promise.all(calls.slice(0, (round + 1) * 10)), receivers[0]?.waitFor(99)])
    await server.kill()
    await Promise.all(calls)
  }
  const recorded = listRecorded()
  expect(recorded.length).toBeGreaterThanOrEqual(ROUNDS * 10)
  const server = await startServer({ data, config })
  for (const receiver of receivers) await waitForAll(receiver, recorded)
  await server.kill()
  for (const receiver of receivers) {
    const told = receiver.requests.flatMap(({ body }) => listIds(body))
    expect(recorded.filter(id => !told.includes(id))).toEqual([])
  }
}, 120_000)

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

const ask = (url: string, key: string, content: string): Promise<unknown> =>
  fetch(`${url}/api/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'sandbox/echo', messages: [{ role: 'user', content }] }),
  })
    .then(response => response.text())
    .catch(() => undefined)

async function waitForAll(receiver: Receiver, ids: string[]): Promise<void> {
  const isMissing = () => {
    const told = new Set(receiver.requests.flatMap(({ body }) => listIds(body)))
    return ids.some(id => !told.has(id))
  }
  while (isMissing()) await receiver.waitFor(receiver.requests.length + 1)
}
