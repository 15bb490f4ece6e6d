import { describe, expect, test } from 'bun:test'
import { GatewayError, unavailable } from '../../../src/base/errors.ts'
import { infer } from '../../../src/engine/infer.ts'
import type { HeldCall } from '../../../src/limits/ledger.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'

const CONFIG = {
  providers: {
    local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:1/v1', api_key: 'mock' },
  },
  models: [
    {
      id: 'acme/small',
      endpoints: [
        {
          provider: 'local',
          model: 'm',
          max_completion_tokens: 100,
          usd_per_million_tokens: { prompt: 1, completion: 1 },
        },
      ],
    },
  ],
}

async function calling() {
  const gateway = await testGateway({ config: CONFIG })
  const { data } = await createKey(gateway, getOperator(gateway), { name: 'ci', limit: 1 })
  const actor = { ...getOperator(gateway), kind: 'inference' as const, key_hash: data.hash }
  const word: string[] = []
  gateway.journal.holds.append = ({ id }: HeldCall) => {
    word.push(`open ${id}`)
    return { written: Promise.resolve(), forget: () => void word.push(`close ${id}`) }
  }
  const call = () =>
    infer(gateway, actor, 'text', buildTextCall(), new AbortController().signal).catch(thrown =>
      GatewayError.from(thrown),
    )
  return { gateway, hash: data.hash, call, word }
}

describe('the journal entry of a call', () => {
  test('is written before it is sent, and removed when it is on record', async () => {
    const { gateway, hash, call, word } = await calling()
    const { id } = buildTextCall()
    expect(await call()).toMatchObject({ status: 502 })
    expect(word).toEqual([`open ${id}`, `close ${id}`])
    expect((await gateway.store.generations.byId(id))?.finish_reason).toBe('error')
    expect(gateway.ledger.getHeld(`key ${hash}`, true)).toBe(0n)
    await gateway.close()
  })

  test('that cannot be written stops the call: nothing is sent, its hold is released', async () => {
    const { gateway, hash, call } = await calling()
    let asked = 0
    gateway.events.on('attempt.failed', () => {
      asked += 1
    })
    gateway.journal.holds.append = () => ({
      written: Promise.reject(unavailable('The call could not be recorded')),
      forget: () => undefined,
    })
    expect(await call()).toMatchObject({ status: 503 })
    expect([
      asked,
      gateway.ledger.getHeld(`key ${hash}`, true),
      gateway.traffic.calls.size,
    ]).toEqual([0, 0n, 0])
    await gateway.close()
  })
})
