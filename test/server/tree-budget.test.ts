import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Json } from '../../src/base/json.ts'
import { explain } from '../../src/extensions/explain.ts'
import { getGeneration } from '../../src/observability/generations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { buildTextCall } from '../support/call.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import type { ReceivedRequest, ScriptedAnswer } from '../support/fake-providers/fake-provider.ts'
import { testGateway } from '../support/gateway.ts'
import { expectBooks } from '../support/invariants.ts'
import { LONG } from '../support/random.ts'
import { DOORS, type LoopStage, openLoopStage, TURN } from '../support/tool-loop.ts'
import { json, startUpstream, type Upstream } from '../support/upstream.ts'

let stage: LoopStage | undefined
afterEach(async () => {
  await stage?.close()
  stage = undefined
})

const open = async (...given: Parameters<typeof openLoopStage>): Promise<LoopStage> => {
  stage = await openLoopStage(...given)
  return stage
}

const say = (text: string): { answer: ScriptedAnswer } => ({ answer: { text, finish: 'stop' } })

/** A model that calls every tool that it has, as often as it may in one turn. */
const greedy: Scenario = ({ tools, choice }: ReceivedRequest) =>
  choice === 'none' || tools.length === 0
    ? say('Enough.')
    : {
        answer: {
          calls: Array.from({ length: 4 * tools.length }, (_, i) => ({
            id: `call_${i}`,
            name: tools[i % tools.length] ?? '',
            input: JSON.stringify({ prompt: 'Q', task_name: 't', task_description: 'T' }),
          })),
          finish: 'tool_calls',
        },
      }

const ADVISOR = { type: 'gateway:advisor' }
const NESTED: Json = { tools: [{ type: 'gateway:subagent', parameters: { tools: [ADVISOR] } }] }

/** Counts the calls that providers answer at once. */
function createPace() {
  const at = { once: 0, most: 0 }
  const pace = async () => {
    at.once += 1
    at.most = Math.max(at.most, at.once)
    // A provider takes long enough for those that may come meanwhile.
    for (let turns = 0; turns < 50; turns++) await new Promise(resolve => setImmediate(resolve))
    at.once -= 1
  }
  return { at, pace }
}

const rename = (config: Json): Json => ({
  ...config,
  models: (config.models as { id: string; endpoints: Json[] }[]).map(({ id, ...model }) => ({
    ...model,
    id: id === 'acme/openai-chat' ? 'acme/chat:free' : id,
  })),
})

/** Expects that the key has spent what its calls cost, beside what `expectBooks` does. */
async function expectSpent(stage: LoopStage): Promise<void> {
  await expectBooks(stage)
  const { money, generations } = stage
  expect(money.spent).toBe(
    generations.reduce((sum, { total_cost }) => sum + (total_cost ?? 0n), 0n),
  )
}

describe('the tree of a call', () => {
  test('counts each call of a provider against the limits of its key', async () => {
    const { at, pace } = createPace()
    const limits = { requests_per_minute: 10, concurrent_requests: 3 }
    const stage = await open(greedy, { config: { limits }, pace })
    const { status, text } = await stage.ask('chat', NESTED)
    expect([status, text]).toEqual([200, 'Enough.'])
    expect([stage.heard.length <= 10, at.most <= 3]).toEqual([true, true])
    await expectSpent(stage)
  })

  test('counts each call of a free model', async () => {
    const limits = { free_models: { requests_per_day: 20 } }
    const data = mkdtempSync(join(tmpdir(), 'gateway-free-'))
    const stage = await open(greedy, { config: { limits }, changeConfig: rename, parts: { data } })
    const { status, text } = await stage.ask('chat', { ...NESTED, model: 'acme/chat:free' })
    expect([status, text]).toEqual([200, 'Enough.'])
    expect(stage.heard.length).toBeLessThanOrEqual(20)
    const used = stage.gateway.traffic.counters.getFreeUsage()?.used
    expect(used).toBe(stage.heard.length)
    await stage.gateway.recorder.flush()
    // What is on the disk now is all that a killed process would leave.
    const config = { limits: { free_models: { requests_per_day: 20 } } }
    cpSync(data, `${data}-killed`, { recursive: true })
    const next = await testGateway({ data: `${data}-killed`, config })
    expect(next.traffic.counters.getFreeUsage()?.used).toBe(used)
    await next.close()
    rmSync(`${data}-killed`, { recursive: true })
  })

  test('makes 200 calls of providers, eight at once', async () => {
    const { at, pace } = createPace()
    const stage = await open(greedy, { pace })
    const { status, text } = await stage.ask('chat', NESTED)
    expect([status, text]).toEqual([200, 'Enough.'])
    expect([stage.heard.length, at.most]).toEqual([200, 8])
    await expectSpent(stage)
  })

  test('spends no more than max_cost, the turn that reaches it, and the last one', async () => {
    const max_cost_in_dollars = Number(20n * TURN) / 1e9
    const stage = await open(greedy, { limit: 1 })
    const { status, text } = await stage.ask('chat', {
      ...NESTED,
      stop_server_tools_when: [{ type: 'max_cost', max_cost_in_dollars }],
    })
    expect([status, text]).toEqual([200, 'Enough.'])
    expect(stage.money.spent).toBeLessThanOrEqual(21n * TURN)
    await expectSpent(stage)
  })

  test('takes no more than max_tokens_used, the turn that reaches it, and the last one', async () => {
    const stage = await open(greedy, { limit: 1 })
    const { status, text } = await stage.ask('chat', {
      ...NESTED,
      stop_server_tools_when: [{ type: 'max_tokens_used', max_tokens: 150 }],
    })
    expect([status, text]).toEqual([200, 'Enough.'])
    expect(stage.heard.length).toBeLessThanOrEqual(11)
    await expectSpent(stage)
  })

  test('goes on when its limit is spent by what it asks within', async () => {
    const stage = await open(greedy, { limit: 0.01 })
    const { status, text } = await stage.ask('chat', NESTED)
    expect([status, text]).toEqual([200, 'Enough.'])
    expect(stage.money.spent).toBeLessThanOrEqual(10_000_000n)
    await expectSpent(stage)
  })

  test('holds no permit of its key while its tools run', async () => {
    const { at, pace } = createPace()
    const stage = await open(greedy, { config: { limits: { concurrent_requests: 5 } }, pace })
    const calls = Array.from({ length: 5 }, () =>
      stage.ask('chat', { tools: [ADVISOR], max_tool_calls: 1 }),
    )
    const statuses = (await Promise.all(calls)).map(({ status }) => status)
    expect(statuses).toEqual([200, 200, 200, 200, 200])
    expect(at.most).toBeLessThanOrEqual(5)
  })
})

test('calls of all doors at once spend no more than their limit', async () => {
  const stage = await open(greedy, {
    limit: 1,
    changeConfig: config => ({
      ...config,
      // A turn costs two cents.
      models: (config.models as { endpoints: Json[] }[]).map(({ endpoints, ...model }) => ({
        ...model,
        endpoints: endpoints.map(endpoint => ({
          ...endpoint,
          usd_per_million_tokens: { prompt: 100, completion: 200 },
        })),
      })),
    }),
  })
  const bodies = [{}, { tools: [ADVISOR] }, NESTED]
  const calls = Array.from({ length: LONG ? 1_000 : 150 }, async (_, i) => {
    const body = { stream: i % 2 === 0, ...bodies[i % bodies.length] }
    return (await stage.ask(DOORS[i % DOORS.length] ?? 'chat', body)).status
  })
  const statuses = new Set(await Promise.all(calls))
  expect([...statuses].toSorted()).toEqual([200, 402])
  expect(stage.money.spent).toBeLessThanOrEqual(1_000_000_000n)
  expect(stage.money.spent).toBeGreaterThan(20_000_000n)
  await expectSpent(stage)
}, 120_000)

describe('what bounds a tree', () => {
  const BOUNDS: [bound: string, config: Json, body: Json][] = [
    ['limits.tree.calls', { tree: { calls: 7 } }, {}],
    ['limits.tree.depth', { tree: { depth: 1 } }, {}],
    ['requests-per-min', { requests_per_minute: 5 }, {}],
    [
      'max_cost',
      {},
      { stop_server_tools_when: [{ type: 'max_cost', max_cost_in_dollars: 0.00005 }] },
    ],
    [
      'max_tokens_used',
      {},
      { stop_server_tools_when: [{ type: 'max_tokens_used', max_tokens: 40 }] },
    ],
  ]
  for (const door of DOORS)
    test.each(BOUNDS)(
      `${door}: %s is named in the answer and on record`,
      async (bound, limits, body) => {
        const stage = await open(greedy, { config: { limits } })
        const stopping = { max_tool_calls: 1, ...body }
        const { status, text, usage } = await stage.ask(door, { ...NESTED, ...stopping })
        expect([status, text]).toEqual([200, 'Enough.'])
        const shown = usage.server_tool_use_details ?? usage.server_tool_use
        expect(shown).toMatchObject({ ended_by: bound })
        const [{ id } = { id: '' }] = stage.generations
        const { data } = await getGeneration(stage.gateway, getOperator(stage.gateway), id)
        const { length } = stage.heard
        expect(data.tree).toEqual({
          ...{ requests: length, tokens: 15 * length, ended_by: bound },
          usd: (Number(TURN) * length) / 1e9,
        })
      },
    )

  test('is of all, of a workspace or of a key, and is shown before a call is made', async () => {
    const stage = await open(greedy)
    const { gateway, key } = stage
    const explainTree = async () => {
      const understand = () => buildTextCall({ models: ['acme/openai-chat'] })
      const operator = getOperator(gateway)
      return (await explain(gateway, operator, { key: key.hash }, 'text', understand)).policy.tree
    }
    const [workspace = ''] = gateway.memory.workspaces.keys()
    expect(await explainTree()).toEqual({ calls: 200, at_once: 8, depth: 3 })
    gateway.config.limits.tree.workspaces = { [workspace]: { calls: 50, depth: 2 } }
    expect(await explainTree()).toEqual({ calls: 50, at_once: 8, depth: 2 })
    gateway.config.limits.tree.keys = { [key.hash]: { calls: 9 } }
    expect(await explainTree()).toEqual({ calls: 9, at_once: 8, depth: 2 })
    await stage.ask('chat', NESTED)
    expect(stage.heard.length).toBeLessThanOrEqual(9)
  })

  test('a tool within the last call that is left is not offered', async () => {
    const stage = await open(greedy, { config: { limits: { tree: { calls: 1 } } } })
    const { text, usage } = await stage.ask('chat', NESTED)
    expect([text, stage.heard.length]).toEqual(['Enough.', 1])
    expect(usage.server_tool_use_details).toMatchObject({ ended_by: 'limits.tree.calls' })
  })
})

describe('a service that is asked for a call', () => {
  let service: Upstream
  const paths: string[] = []
  beforeAll(async () => {
    service = await startUpstream()
  })
  afterAll(() => service.close())
  beforeEach(() => {
    paths.length = 0
    service.answer(({ path, json: asked }) => {
      paths.push(path.split(/[?]/)[0] ?? '')
      const { input = [] } = (asked ?? {}) as { input?: string[] }
      const body = path.includes('search')
        ? { results: [{ url: 'https://example.com/a', title: 'A', content: 'a' }] }
        : { results: input.map(() => ({ flagged: false })) }
      return json(body)
    })
  })
  const config = (limits: Json) => (base: Json) => ({
    ...base,
    limits,
    providers: {
      ...(base.providers as Json),
      judge: { protocol: 'openai-chat', base_url: service.url, api_key: 'mock' },
    },
    plugins: { moderation: { provider: 'judge', model: 'judge' } },
    web_search: { engines: { searxng: { base_url: service.url } } },
  })
  const SEARCH = { tools: [{ type: 'gateway:web_search' }] }
  const JUDGED = { plugins: [{ id: 'moderation' }] }

  test('takes a call of the tree: its model is told when none is left', async () => {
    const stage = await open(searching, { changeConfig: config({ tree: { calls: 4 } }) })
    const { status, text, usage } = await stage.ask('chat', SEARCH)
    expect([status, text]).toEqual([200, 'Enough.'])
    expect(paths.length + stage.heard.length).toBe(4)
    expect(usage.server_tool_use_details).toMatchObject({ ended_by: 'limits.tree.calls' })
    const results = stage.heard.at(-1)?.results.map(({ text }) => text)
    expect(results?.at(-1)).toContain('limits.tree.calls is reached')
    await expectSpent(stage)
  })

  test('takes a request of its key', async () => {
    const stage = await open(searching, { changeConfig: config({ requests_per_minute: 4 }) })
    const { status, text } = await stage.ask('chat', SEARCH)
    expect([status, text]).toEqual([200, 'Enough.'])
    expect(paths.length + stage.heard.length).toBe(4)
    await expectSpent(stage)
  })

  test('takes a place of its key, and gives it back', async () => {
    const stage = await open(searching, { changeConfig: config({ concurrent_requests: 1 }) })
    const calls = [SEARCH, { ...SEARCH, ...JUDGED }].map(body => stage.ask('chat', body))
    // The second call may find no place at its door; what is in neither is a wait without end.
    const statuses = (await Promise.all(calls)).map(({ status }) => status)
    expect(statuses).toContain(200)
    expect((await stage.ask('chat', { ...SEARCH, ...JUDGED })).status).toBe(200)
    expect(stage.gateway.traffic.counters.exportRunning()).toEqual(new Map())
    await expectSpent(stage)
  })

  test('that judges a call is refused as a call is', async () => {
    const stage = await open(() => say('Well.'), {
      changeConfig: config({ requests_per_minute: 3 }),
    })
    expect((await stage.ask('chat', JUDGED)).status).toBe(200)
    expect((await stage.ask('chat', JUDGED)).status).toBe(429)
    expect([paths.length, stage.heard.length]).toEqual([1, 1])
    await expectSpent(stage)
  })
})

/** A model that searches as long as it may, one search a turn. */
const searching: Scenario = ({ tools, choice }: ReceivedRequest) =>
  choice === 'none' || tools.length === 0
    ? say('Enough.')
    : {
        answer: {
          calls: [{ id: 'call_1', name: tools[0] ?? '', input: JSON.stringify({ query: 'Q' }) }],
          finish: 'tool_calls',
        },
      }
