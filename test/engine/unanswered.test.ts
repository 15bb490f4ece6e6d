import { expect, test } from 'bun:test'
import { infer } from '../../src/engine/infer.ts'
import type { Send } from '../../src/network/egress.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { buildTextCall } from '../support/call.ts'
import { testGateway } from '../support/gateway.ts'

const CONFIG = {
  providers: {
    local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'k' },
  },
  models: [
    {
      id: 'acme/small',
      endpoints: [
        {
          provider: 'local',
          model: 'm',
          usd_per_million_tokens: { prompt: 1000, completion: 1000 },
        },
      ],
    },
  ],
}

/** Makes a call whose client leaves while the provider is silent. */
async function abandonCall(isConnected: boolean) {
  const asked = Promise.withResolvers<void>()
  const egress: Send = ({ onSent }, cancellation) => {
    if (isConnected) onSent?.()
    asked.resolve()
    return new Promise((_, reject) => cancellation.listen(reject))
  }
  const gateway = await testGateway({ config: CONFIG, egress })
  const finished: Generation[] = []
  const failed: string[] = []
  gateway.events.on('generation.finished', generation => finished.push(generation))
  gateway.events.on('attempt.failed', ({ endpoint }) => failed.push(endpoint.provider.slug))
  const client = new AbortController()
  const answer = infer(gateway, getOperator(gateway), 'text', buildTextCall(), client.signal)
  await asked.promise
  client.abort()
  await expect(answer).rejects.toMatchObject({ status: 499 })
  await gateway.close()
  return { record: finished[0], failed }
}

test('a client that leaves pays for a prompt that a connection has taken', async () => {
  const { record } = await abandonCall(true)
  expect(record).toMatchObject({
    cancelled: true,
    usageSource: 'estimated',
    provider_name: 'local',
  })
  expect(record?.upstream_inference_cost).toBeGreaterThan(0n)
  expect(record?.native_tokens_prompt).toBeGreaterThan(0)
})

test('a client that leaves while no connection has taken the prompt pays nothing', async () => {
  const { record } = await abandonCall(false)
  expect(record).toMatchObject({ cancelled: true, usageSource: 'none', native_tokens_prompt: 0 })
})

test('a client that leaves is no failure of the provider', async () => {
  expect((await abandonCall(true)).failed).toEqual([])
})
