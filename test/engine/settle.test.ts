import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { createPlan } from '../../src/engine/run.ts'
import type { TextPart } from '../../src/language/part.ts'
import { createTextUsage, type Units, type Usage } from '../../src/language/usage.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { toExactPrices } from '../../src/resources/prices.ts'
import { RECORD_COLUMNS } from '../../src/store/sql/generations/rows.ts'
import type { Tokenizers } from '../../src/translation/tokenizers.ts'
import { buildEndpoint, buildTextCall } from '../support/call.ts'
import { testGateway } from '../support/gateway.ts'
import { beginStep, openStepAnswer } from '../support/run.ts'

/** Tokenizers that take their time: they answer when they are closed. */
function slowTokenizers(): Tokenizers & { asked: string[][] } {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>()
  const asked: string[][] = []
  const count = async (_: string, texts: string[]) => {
    asked.push(texts)
    await closed
    return 7
  }
  return { asked, count, close }
}

/** A call that has begun with these parts, and the records of what has finished. */
async function begun(parts: TextPart[], tokenizers = slowTokenizers()) {
  const gateway = await testGateway({ tokenizers })
  const finished: Generation[] = []
  gateway.events.on('generation.finished', generation => finished.push(generation))
  const endpoint = buildEndpoint()
  const plan = createPlan([endpoint])
  const client = new AbortController()
  const running = beginStep(
    gateway,
    getOperator(gateway),
    'text',
    buildTextCall(),
    plan,
    client.signal,
  )
  const answer = openStepAnswer(gateway, running, {
    endpoint,
    sentAt: 0,
    leftover: null,
    first: parts,
    rest: null,
  })
  return { gateway, answer, finished, tokenizers, client }
}

const HELLO: TextPart = { type: 'text-delta', choice: 0, text: 'Hello' }
const FINISH: TextPart = { type: 'finish', choice: 0, reason: 'stop', native: 'stop' }
const FILTERED: TextPart = {
  type: 'finish',
  choice: 0,
  reason: 'content_filter',
  native: 'guardrail_intervened',
}

const inUnits = (units: Units): Usage => ({ ...createTextUsage(0, 0), units })
const counted = (usage: Usage): TextPart => ({ type: 'usage', usage })

describe('an answer whose provider did not count', () => {
  test('is running until it is estimated; its generation time excludes the estimate', async () => {
    const { gateway, answer, finished, tokenizers } = await begun([HELLO, FINISH])
    const all = answer.parts.collect()
    await Bun.sleep(0)
    expect([tokenizers.asked, finished, gateway.traffic.calls.size]).toEqual([
      [['Hi'], ['Hello']],
      [],
      1,
    ])
    tokenizers.close()
    expect((await all).at(-1)).toMatchObject([
      { type: 'receipt', receipt: { usageSource: 'estimated', usage: { output: { text: 7 } } } },
    ])
    expect([finished.length, gateway.traffic.calls.size]).toEqual([1, 0])
    expect(finished[0]).toMatchObject({ native_tokens_completion: 7, generation_time: 0 })
    // Filled in the order of its columns.
    expect(Object.keys(finished[0] ?? {})).toEqual([...RECORD_COLUMNS])
    await gateway.close()
  })

  test('is not cancelled by a client who leaves while it is estimated', async () => {
    const { gateway, answer, finished, tokenizers, client } = await begun([HELLO, FINISH])
    const all = answer.parts.collect()
    client.abort()
    tokenizers.close()
    await all
    expect(finished).toMatchObject([{ cancelled: false, finish_reason: 'stop' }])
    await gateway.close()
  })

  test('is recorded if the gateway closes before it is estimated', async () => {
    const { gateway, answer, finished } = await begun([HELLO])
    await answer.parts.next()
    const left = answer.parts.return?.()
    expect(finished).toEqual([])
    await gateway.close()
    await left
    expect(finished).toMatchObject([{ usageSource: 'estimated', native_tokens_completion: 7 }])
  })

  test.each([
    ['0 and 0', createTextUsage(0, 0)],
    ['0 and 0 and a search', inUnits({ search: 1 })],
  ])('counts %s though something was delivered', async (_, usage) => {
    const { gateway, answer, finished, tokenizers } = await begun([HELLO, FINISH, counted(usage)])
    tokenizers.close()
    await answer.parts.collect()
    expect(finished).toMatchObject([{ usageSource: 'estimated', native_tokens_completion: 7 }])
    await gateway.close()
  })
})

describe('a provider’s own count', () => {
  test.each<[name: string, parts: TextPart[], source: string]>([
    ['of something', [HELLO, FINISH, counted(createTextUsage(1, 1))], 'exact'],
    ['of a prompt alone', [HELLO, FINISH, counted(createTextUsage(1, 0))], 'exact'],
    ['of nothing, of nothing', [FINISH, counted(createTextUsage(0, 0))], 'exact'],
    ['in units, without tokens', [HELLO, FINISH, counted(inUnits({ image: 1 }))], 'exact'],
    [
      'of nothing, for the text of a filter',
      [HELLO, FILTERED, counted(createTextUsage(0, 0))],
      'exact',
    ],
  ])('%s stands, and nothing is estimated', async (_, parts, usageSource) => {
    const { gateway, answer, finished, tokenizers } = await begun(parts)
    await answer.parts.collect()
    expect([finished[0]?.usageSource as string, tokenizers.asked]).toEqual([usageSource, []])
    await gateway.close()
  })
})

describe('how an answer calls the tools that it was offered', () => {
  const called = (input: string): TextPart[] => [
    { type: 'tool-call-start', choice: 0, index: 0, id: 'call_1', name: 'f' },
    { type: 'tool-call-delta', choice: 0, index: 0, input },
  ]
  const tools = [{ type: 'function' as const, name: 'f' }]

  /**
   * What is recorded of the endpoint whose answer begins so and ends as `rest` does, or with its
   * client.
   */
  async function judgements(
    first: TextPart[],
    rest: AsyncGenerator<TextPart[]>,
    { leaves = false, call = buildTextCall({ tools }) } = {},
  ) {
    const gateway = await testGateway()
    const said: boolean[] = []
    gateway.events.on('tools.judged', ({ toolCallsValid }) => said.push(toolCallsValid))
    const endpoint = buildEndpoint()
    const client = new AbortController()
    const running = beginStep(
      gateway,
      getOperator(gateway),
      'text',
      call,
      createPlan([endpoint]),
      client.signal,
    )
    const answer = openStepAnswer(gateway, running, {
      endpoint,
      sentAt: 0,
      leftover: null,
      first,
      rest,
    })
    if (leaves) client.abort()
    await answer.parts.collect().catch(() => undefined)
    await gateway.close()
    return said
  }

  async function* ending(error?: GatewayError): AsyncGenerator<TextPart[]> {
    yield [FINISH]
    if (error) throw error
  }

  test.each<[name: string, first: TextPart[], error: GatewayError | undefined, said: boolean[]]>([
    ['well', called('{}'), undefined, [true]],
    ['badly', called('{'), undefined, [false]],
    ['and breaks off', called('{}'), new GatewayError('provider_unavailable', 'gone'), [false]],
    ['and is ended by our own error', called('{}'), new GatewayError('server', 'oh'), []],
  ])('%s: the endpoint’s record', async (_, first, error, said) => {
    expect(await judgements(first, ending(error))).toEqual(said)
  })

  test('is not recorded if the client has left, or has offered none', async () => {
    const gone = new GatewayError('provider_unavailable', 'gone')
    expect(await judgements(called('{'), ending(gone), { leaves: true })).toEqual([])
    expect(await judgements(called('{'), ending(gone), { call: buildTextCall() })).toEqual([])
  })
})

test('trap 91: an answer costs what its own endpoint charges, not the first one', async () => {
  const gateway = await testGateway()
  const finished: Generation[] = []
  gateway.events.on('generation.finished', generation => finished.push(generation))
  const dear = buildEndpoint({ prices: toExactPrices({ prompt: 100, completion: 100 }) })
  const cheap = buildEndpoint({ prices: toExactPrices({ prompt: 1, completion: 2 }) })
  const running = beginStep(
    gateway,
    getOperator(gateway),
    'text',
    buildTextCall(),
    createPlan([dear, cheap]),
    new AbortController().signal,
  )
  await openStepAnswer(gateway, running, {
    endpoint: cheap,
    sentAt: 0,
    leftover: null,
    first: [HELLO, FINISH, counted(createTextUsage(1_000, 1_000))],
    rest: null,
  }).parts.collect()
  expect(finished).toMatchObject([{ total_cost: 3_000_000n }])
  await gateway.close()
})

describe('trap 90: an answer that broke off after its provider had counted the prompt', () => {
  async function leftAfter(parts: TextPart[]) {
    const { gateway, answer, finished, tokenizers } = await begun(parts)
    await answer.parts.next()
    const left = answer.parts.return?.()
    tokenizers.close()
    await left
    await gateway.close()
    return finished[0]
  }

  test('costs the prompt as counted and the words that were delivered', async () => {
    expect(await leftAfter([counted(createTextUsage(100, 1)), HELLO])).toMatchObject({
      usageSource: 'estimated',
      native_tokens_prompt: 100,
      native_tokens_completion: 7,
    })
  })

  test('costs the output as counted if that is more', async () => {
    expect(await leftAfter([counted(createTextUsage(100, 50)), HELLO])).toMatchObject({
      native_tokens_prompt: 100,
      native_tokens_completion: 50,
    })
  })

  test('costs what was counted if nothing was delivered: its client left, it did not fail', async () => {
    expect(await leftAfter([counted(createTextUsage(100, 1))])).toMatchObject({
      usageSource: 'estimated',
      native_tokens_prompt: 100,
    })
  })

  test('costs what was counted if it had ended', async () => {
    expect(await leftAfter([HELLO, FINISH, counted(createTextUsage(100, 1))])).toMatchObject({
      usageSource: 'exact',
      native_tokens_completion: 1,
    })
  })
})

describe('a client who leaves with the answer, before it is counted,', () => {
  test.each<[name: string, part: TextPart, cost: bigint]>([
    [
      'pays for an image',
      { type: 'image', choice: 0, url: 'data:image/png;base64,AA==' },
      38_707_000n,
    ],
    [
      'pays the prompt for search results',
      { type: 'other', choice: 0, dialect: 'messages', value: {} },
      7_000n,
    ],
    [
      'pays for audio',
      { type: 'audio-delta', choice: 0, audio: { data: 'A'.repeat(64_000) } },
      2_007_000n,
    ],
  ])('%s', async (_, part, cost) => {
    const gateway = await testGateway()
    const finished: Generation[] = []
    gateway.events.on('generation.finished', generation => finished.push(generation))
    const endpoint = buildEndpoint({
      prices: toExactPrices({ prompt: 1, completion: 2, image_output: 30, audio_output: 80 }),
    })
    const client = new AbortController()
    const running = beginStep(
      gateway,
      getOperator(gateway),
      'text',
      buildTextCall(),
      createPlan([endpoint]),
      client.signal,
    )
    const answer = openStepAnswer(gateway, running, {
      endpoint,
      sentAt: 0,
      leftover: null,
      first: [part],
      rest: null,
    })
    await answer.parts.next()
    await answer.parts.return?.()
    expect(finished).toMatchObject([{ usageSource: 'estimated', total_cost: cost }])
    await gateway.close()
  })
})
