import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { hashSecret } from '../../src/base/credential.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { admitRequest } from '../../src/engine/admit.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import type { Filters } from '../../src/limits/filters.ts'
import { updateGuardrail } from '../../src/limits/guardrails.ts'
import { authenticate, getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createKey, deleteKey, updateKey } from '../../src/resources/keys.ts'
import { getApp } from '../support/app.ts'
import { TestClock, testGateway } from '../support/gateway.ts'

let gateway: Gateway
let clock: TestClock
let key: string

beforeEach(async () => {
  clock = new TestClock()
  gateway = await testGateway({ clock })
  const expires_at = new Date(clock.now().getTime() + 60_000).toISOString()
  key = (await createKey(gateway, getOperator(gateway), { name: 'slow', limit: 0, expires_at })).key
})

afterEach(() => gateway.close())

/**
 * Sends a body that arrives only after something else has happened, to see what is checked again.
 */
async function askAfter(happening: () => unknown): Promise<number> {
  const json = JSON.stringify({
    model: 'sandbox/echo',
    messages: [{ role: 'user', content: 'Hi' }],
  })
  const body = new ReadableStream({
    async pull(controller) {
      await happening()
      controller.enqueue(Buffer.from(json))
      controller.close()
    },
  })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const request = new Request('http://localhost/api/v1/chat/completions', {
    method: 'POST',
    headers,
    body,
  })
  return (await getApp(gateway).handle(request)).status
}

test.each<[how: string, status: number, happening: () => unknown]>([
  ['unchanged', 200, () => undefined],
  ['deleted', 401, () => deleteKey(gateway, getOperator(gateway), hashSecret(key))],
  [
    'disabled',
    401,
    () => updateKey(gateway, getOperator(gateway), hashSecret(key), { disabled: true }),
  ],
  ['expired', 401, () => clock.pass(60_000)],
])(
  'a call whose key is %s while its body arrives gets %d: its limit goes with the key',
  async (_, status, happening) => {
    expect(await askAfter(happening)).toBe(status)
  },
)

test('X-05 a call whose key is deleted while filters run gets 401 and is not sent', async () => {
  const actor = authenticate(gateway, `Bearer ${key}`)
  const nothing: Filters = { getInputFilters: () => null, outputFilters: null }
  let looking: Promise<Filters> | undefined
  gateway.memory.policies.set(hashSecret(key), {
    ...getPolicy(gateway, actor),
    get filters() {
      looking ??= deleteKey(gateway, getOperator(gateway), hashSecret(key)).then(() => nothing)
      return looking
    },
  })
  expect(await askAfter(() => undefined)).toBe(401)
  expect([gateway.traffic.calls.size, gateway.ledger.getHeld('all', true)]).toEqual([0, 0n])
})

test('a request that is no call waits for the counts of other servers', async () => {
  const { counters } = gateway.traffic
  await updateGuardrail(
    gateway,
    getOperator(gateway),
    getDefaultGuardrailId(gateway.memory.owner.workspace_id),
    {
      requests_per_minute: 9,
    } as never,
  )
  counters.take = async () => {
    throw new GatewayError('rate_limit_exceeded', 'None is left')
  }
  const asked = admitRequest(gateway, authenticate(gateway, `Bearer ${key}`))
  await expect(asked).rejects.toThrow('None is left')
})
