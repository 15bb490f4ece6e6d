import { afterEach, describe, expect, test } from 'bun:test'
import { examineGateway } from '../../src/app/doctor.ts'
import { GatewayError } from '../../src/base/errors.ts'
import type { Json } from '../../src/base/json.ts'
import type { ServerTool } from '../../src/extensions/server-tool.ts'
import { advisor } from '../../src/extensions/tools/advisor.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey, deleteKey, updateKey } from '../../src/resources/keys.ts'
import { createApp } from '../../src/server/app.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import type { ScriptedAnswer } from '../support/fake-providers/fake-provider.ts'
import { testGateway } from '../support/gateway.ts'
import { buildLocalConfig } from '../support/server.ts'
import { type LoopStage, openLoopStage, TURN } from '../support/tool-loop.ts'
import { completion, delta, done, finish, sseHead, startUpstream } from '../support/upstream.ts'

/** Turns of models within one call, all of which have taken their prompts when it ends. */
const ASKED = 8

let stage: LoopStage | undefined
afterEach(async () => {
  await stage?.close()
  stage = undefined
})

const say = (text: string): { answer: ScriptedAnswer } => ({ answer: { text, finish: 'stop' } })

/** Asks eight models at once. */
const asking: Scenario = ({ lines, results }) =>
  lines.some(line => line.startsWith('user: Inner')) || results.length > 0
    ? say('Done.')
    : {
        answer: {
          calls: Array.from({ length: ASKED }, (_, i) => ({
            id: `call_${i}`,
            name: 'advisor',
            input: JSON.stringify({ prompt: `Inner ${i}` }),
          })),
          finish: 'tool_calls',
        },
      }

const BODY: Json = { tools: [{ type: 'gateway:advisor' }] }

/** Ways to end a call while the models within it are silent. */
const ENDS: [name: string, end: (at: LoopStage, client: AbortController) => unknown][] = [
  ['its client leaves', (_, client) => client.abort()],
  [
    'its key is disabled',
    ({ gateway, key }) =>
      updateKey(gateway, getOperator(gateway), key.hash, { disabled: true } as never),
  ],
  ['its key is deleted', ({ gateway, key }) => deleteKey(gateway, getOperator(gateway), key.hash)],
  ['the gateway stops', ({ gateway }) => void gateway.traffic.calls.drain(600_000)],
  [
    'something else ends it',
    ({ gateway }) => {
      for (const call of gateway.traffic.calls.listRunning())
        call.cancellation.cancel(new GatewayError('permission_denied', 'No'))
    },
  ],
]

/** Opens a stage whose models are silent once all of them have been asked. */
async function openSilent(tools: ServerTool[] = [advisor as ServerTool]) {
  const asked = Promise.withResolvers<void>()
  let count = 0
  const pace = async ({ lines }: { lines: string[] }, signal: AbortSignal) => {
    if (!lines.some(line => line.startsWith('user: Inner'))) return
    count += 1
    if (count === ASKED) asked.resolve()
    await new Promise(resolve => signal.addEventListener('abort', resolve))
  }
  stage = await openLoopStage(asking, { limit: 1, tools, pace })
  return { at: stage, asked: asked.promise }
}

async function endCall(end: (typeof ENDS)[number][1], isStreamed: boolean) {
  const { at, asked } = await openSilent()
  const client = new AbortController()
  const closed = new Promise(resolve => at.gateway.events.on('call.closed', resolve))
  const sent = at.send('chat', { ...BODY, stream: isStreamed }, { signal: client.signal })
  const reading = Promise.resolve(sent).then(async answer => {
    const reader = answer.body?.getReader()
    client.signal.addEventListener('abort', () => void reader?.cancel().catch(() => undefined))
    while (!(await reader?.read())?.done);
  })
  await asked
  await end(at, client)
  await Promise.allSettled([reading, closed])
  await at.gateway.recorder.flush()
  return at
}

describe('a prompt that a provider has taken is paid', () => {
  for (const isStreamed of [false, true])
    test.each(ENDS)(`when %s; streamed ${isStreamed}`, async (_, end) => {
      const at = await endCall(end, isStreamed)
      const [generation] = at.generations
      const inner = generation?.steps.filter(({ depth, type }) => depth === 1 && type === 'model')
      expect(inner).toHaveLength(ASKED)
      for (const { cost } of inner ?? []) expect(cost).toBeGreaterThan(0n)
      expect(new Set(inner?.map(({ cost }) => cost)).size).toBe(1)
      expect(generation?.usageSource).toBe('estimated')
      expect(at.money).toEqual({ held: 0n, spent: generation?.total_cost ?? 0n })
      expect(at.money.spent).toBeGreaterThan(TURN)
      expect((await examineGateway(at.gateway)).data.filter(({ ok }) => !ok)).toEqual([])
    })

  test('alike, whatever ended the call', async () => {
    const costs = new Set<bigint | null | undefined>()
    for (const [, end] of ENDS) {
      costs.add((await endCall(end, false)).generations[0]?.total_cost)
      await stage?.close()
      stage = undefined
    }
    expect(costs.size).toBe(1)
  })

  test('by a use that takes too long, and the call goes on', async () => {
    const { at } = await openSilent([{ ...(advisor as ServerTool), takesTurns: false }])
    at.gateway.config.server_tools.timeout_seconds = 0.5
    const { status, text } = await at.ask('chat', BODY)
    expect([status, text]).toEqual([200, 'Done.'])
    const [generation] = at.generations
    for (const { cost } of generation?.steps.filter(({ depth }) => depth === 1) ?? [])
      expect(cost).toBeGreaterThan(0n)
    expect(at.money).toEqual({ held: 0n, spent: generation?.total_cost ?? 0n })
  })
})

describe('a provider that does not keep to max_tokens and counts nothing', () => {
  /** Streams words without an end, one after the other. */
  const drone = () => [
    sseHead(),
    ...Array.from({ length: 2_000 }, () => [delta(WORDS), { ms: 2 }]).flat(),
    finish(),
  ]
  const WORDS = 'and on and on and on and on and on and on and on and on '.repeat(4)

  test.each(['/chat/completions', '/messages', '/responses'])(
    'is read no further than what was set aside pays: %s',
    async path => {
      const upstream = await startUpstream()
      const gateway = await testGateway({ config: buildLocalConfig(upstream.url) })
      upstream.answer(() => [...drone(), done(), '0\r\n\r\n'])
      const made = await createKey(gateway, getOperator(gateway), { name: 'k', limit: 0.002 })
      const input = path === '/responses' ? { input: 'Hi', max_output_tokens: 50 } : {}
      const chat = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 50 }
      const response = await createApp(gateway).handle(
        new Request(`http://localhost/api/v1${path}`, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            authorization: `Bearer ${made.key}`,
          },
          body: JSON.stringify({
            ...{ model: 'acme/small', stream: true },
            ...(path === '/responses' ? input : chat),
          }),
        }),
      )
      const text = await response.text()
      expect(text.length).toBeLessThan(60_000)
      expect(text).toMatch(
        /"(finish_reason|stop_reason|reason)":"(length|max_tokens|max_output_tokens)"/,
      )
      const account = `key ${made.data.hash}` as const
      // 50 tokens at most, and the largest prompt.
      expect(Number(gateway.ledger.getSpent(account, null, false))).toBeWithin(30_000, 50_000)
      expect(gateway.ledger.getHeld(account, false)).toBe(0n)
      expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
      await upstream.emptied()
      await gateway.close()
      await upstream.close()
    },
  )

  test('pays for no more than that where it answers whole', async () => {
    const upstream = await startUpstream()
    const gateway = await testGateway({ config: buildLocalConfig(upstream.url) })
    upstream.answer(() => [completion('and on '.repeat(1_000), { usage: null })])
    const made = await createKey(gateway, getOperator(gateway), { name: 'k', limit: 0.0003 })
    const ask = () =>
      createApp(gateway).handle(
        new Request('http://localhost/api/v1/chat/completions', {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${made.key}` },
          body: JSON.stringify({
            ...{ model: 'acme/small', max_tokens: 50 },
            messages: [{ role: 'user', content: 'Hi' }],
          }),
        }),
      )
    for (let i = 0; i < 12; i++) await (await ask()).text()
    const account = `key ${made.data.hash}` as const
    expect(Number(gateway.ledger.getSpent(account, null, false))).toBeWithin(250_000, 300_001)
    await gateway.close()
    await upstream.close()
  })
})

test('doctor names a call of which a provider took the prompt and nothing is charged', async () => {
  stage = await openLoopStage(() => say('Done.'), { limit: 1 })
  const { gateway } = stage
  await stage.ask('chat', {})
  const [paid] = stage.generations
  if (!paid) throw new Error('No record')
  const id = 'gen-1772600767-unpaid'
  const lost = { ...paid, id, request_id: id, usageSource: 'none' as const }
  const costs = { total_cost: 0n, upstream_inference_cost: 0n }
  await gateway.recorder.record({ generation: { ...lost, ...costs }, charge: null })
  await gateway.recorder.flush()
  expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([
    { check: 'prompts', ok: false, found: `${id}: providers took 1 prompts, 0 are charged` },
  ])
})
