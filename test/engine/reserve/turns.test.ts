import { expect, test } from 'bun:test'
import { yieldToEventLoop } from '../../../src/base/clock.ts'
import { startRun } from '../../../src/engine/infer.ts'
import { getPayer } from '../../../src/engine/reserve.ts'
import { clientLeft, Step } from '../../../src/engine/run.ts'
import { runStages } from '../../../src/engine/stages.ts'
import { createTree } from '../../../src/engine/tree.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'

test('what was set aside for a turn is given back where its client leaves before it has a place', async () => {
  const gateway = await testGateway({
    config: {
      limits: { concurrent_requests: 1 },
      providers: {
        local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:1/v1', api_key: 'mock' },
      },
      models: [
        {
          id: 'acme/small',
          endpoints: [
            {
              ...{ provider: 'local', model: 'm', max_completion_tokens: 100 },
              usd_per_million_tokens: { prompt: 1, completion: 1 },
            },
          ],
        },
      ],
    },
  })
  const { data } = await createKey(gateway, getOperator(gateway), { name: 'ci', limit: 1 })
  const actor = { ...getOperator(gateway), kind: 'inference' as const, key_hash: data.hash }
  const { counters } = gateway.traffic
  const run = startRun(gateway, actor, 'text', buildTextCall())
  run.tree = createTree(gateway, run)
  const amounts = { own: 1_000n, byok: null }
  const { bounds } = run.policy
  const money = {
    ...{ payer: getPayer(run), estimate: { maximum: amounts, minimum: amounts }, bounds },
  }
  run.tree.kept = await counters.take({ actor, call: run.call, money })
  const other = await counters.take({ actor, call: run.call, request: true, place: true })
  const turn = runStages(gateway, gateway.stages.step, new Step(run, run.call))
  await yieldToEventLoop()
  run.cancellation.cancel(clientLeft())
  await expect(Promise.resolve(turn)).rejects.toThrow(clientLeft().message)
  run.release(counters)
  counters.give(other)
  expect(gateway.ledger.getHeld(`key ${data.hash}`, false)).toBe(0n)
  await gateway.close()
})
