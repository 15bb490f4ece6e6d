import { expect, test } from 'bun:test'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../../src/app/doctor.ts'
import type { Json } from '../../src/base/json.ts'
import { recoverCalls } from '../../src/engine/recover.ts'
import { runLine } from '../../src/extensions/batches/job.ts'
import type { ServerTool } from '../../src/extensions/server-tool.ts'
import { advisor } from '../../src/extensions/tools/advisor.ts'
import { datetime } from '../../src/extensions/tools/datetime.ts'
import { fusion } from '../../src/extensions/tools/fusion.ts'
import { imageGeneration } from '../../src/extensions/tools/image-generation.ts'
import { mcp } from '../../src/extensions/tools/mcp.ts'
import { subagent } from '../../src/extensions/tools/subagent.ts'
import { webSearch } from '../../src/extensions/tools/web-search.ts'
import { buildKeyActor, getOperator } from '../../src/resources/actor.ts'
import { createKey, deleteKey, updateKey } from '../../src/resources/keys.ts'
import { createPreset } from '../../src/resources/presets.ts'
import { chat } from '../../src/translation/dialects/chat.ts'
import type { Dialect } from '../../src/translation/dialects/dialect.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import type { ReceivedRequest } from '../support/fake-providers/fake-provider.ts'
import { testGateway } from '../support/gateway.ts'
import { startMcpServer, textResult } from '../support/mcp-server.ts'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'
import {
  buildLoopConfig,
  DOORS,
  type Door,
  type LoopStage,
  openLoopStage,
  TURN,
} from '../support/tool-loop.ts'
import { json, startUpstream } from '../support/upstream.ts'

/*
 * Random trees: tools that ask models which have tools, panels, pictures, servers, searches, plugins
 * and presets, in every API and in batches, with random bounds, which end at random moments. Nothing
 * of a tree passes its bounds, and whatever a provider has taken is charged.
 */

const CASES = LONG ? 10_000 : 100
/** Cases of one gateway, with the same limits. */
const AT_ONE_GATEWAY = 10
/** What a use of the priced tools and of the MCP server costs. */
const PRICE = 3_000n
const PICTURE = 9_000n
/** Turns of the event loop that a model takes which hangs: more than any of the gateway's stops. */
const LONG_TURNS = 2_000
/** Uses that a model asks for in one turn, at most. */
const MOST_USES = 4

type Random = () => number
const pick = <T>(random: Random, items: readonly T[]): T =>
  items[Math.floor(random() * items.length)] as T

/** Creates the chance of one case. The first numbers of neighbouring seeds are alike. */
function createRandom(number: number): Random {
  const random = createSeededRandom(SEED + number)
  for (let i = 0; i < 3; i++) random()
  return random
}

const ENDS = [
  'itself',
  'itself',
  'itself',
  'leave',
  'disable',
  'delete',
  'limit',
  'stop',
  'kill',
] as const
type End = (typeof ENDS)[number]

/** What a gateway allows each tree and key. */
interface Limits {
  calls: number
  at_once: number
  depth: number
  concurrent: number | null
  perMinute: number | null
}

/** A tree as it was asked for, and what providers saw of it. */
interface Tree {
  number: number
  random: Random
  door: Door | 'batch'
  body: Json
  end: End
  /** The call of a provider at which it ends. */
  endAt: number
  hasEnded: boolean
  maxCost: bigint | null
  maxTokens: number | null
  limit: bigint | null
  key: { hash: string; secret: string }
  client: AbortController
  calls: number
  /** Searches and judgements, which are no answers of models. */
  asked: number
  running: number
  mostRunning: number
  /** The calls that were not refused by the provider itself. */
  taken: number
  /** Calls of the tree while another tenant waited. */
  beforeTenant: number | null
}

const trees = new Map<number, Tree>()
const findTree = (text: string): Tree | undefined =>
  trees.get(Number(/tree (\d+)\b/.exec(text)?.[1]))

/** A tool that costs something. */
const priced: ServerTool = {
  name: 'priced',
  schema: datetime.schema,
  readOptions: () => ({}),
  findObstacle: () => null,
  priceUse: () => PRICE,
  listFunctions: () => [{ name: 'priced', description: 'priced', parameters: { type: 'object' } }],
  run: () => Promise.resolve({ text: 'ok', isError: false, cost: PRICE }),
}

const TOOLS = [
  priced,
  datetime,
  advisor,
  subagent,
  fusion,
  imageGeneration,
  mcp,
  webSearch,
] as ServerTool[]

const INNER: Json = { model: 'acme/gemini', max_completion_tokens: 100 }

/** Builds a tool with tools of its own, and so on. */
function buildTool(random: Random, depth: number): Json {
  const names = ['advisor', 'datetime', 'priced', ...(depth < 3 ? ['fusion', 'subagent'] : [])]
  const name = pick(
    random,
    depth === 0 ? [...names, 'image_generation', 'mcp', 'web_search'] : names,
  )
  const tools = () =>
    [
      ...new Map(
        Array.from({ length: 1 + Math.floor(random() * 2) }, () =>
          buildTool(random, depth + 1),
        ).map(tool => [tool.type, tool]),
      ).values(),
    ]
      .filter(({ type }) => name !== 'subagent' || type !== 'gateway:subagent')
      .filter(({ type }) => name !== 'fusion' || type !== 'gateway:fusion')
  const parameters: Record<string, () => Json> = {
    advisor: () => INNER,
    subagent: () => ({ ...INNER, max_tool_calls: 1 + Math.floor(random() * 5), tools: tools() }),
    fusion: () => ({
      ...{ analysis_models: ['acme/gemini', 'acme/cohere-chat'], model: 'acme/bedrock-converse' },
      ...{
        max_completion_tokens: 100,
        max_tool_calls: 1 + Math.floor(random() * 3),
        tools: tools(),
      },
    }),
    image_generation: () => ({ model: 'acme/painter' }),
    mcp: () => ({ server_label: 'remote', require_approval: 'never' }),
  }
  return { type: `gateway:${name}`, parameters: parameters[name]?.() ?? {} }
}

const buildTools = (random: Random): Json[] => [
  ...new Map(
    Array.from({ length: 1 + Math.floor(random() * 4) }, () => buildTool(random, 0)).map(tool => [
      tool.type,
      tool,
    ]),
  ).values(),
]

function buildLimits(random: Random): Limits {
  const some = (most: number) => 1 + Math.floor(random() * most)
  return {
    ...{ calls: some(40), at_once: some(8), depth: some(3) },
    concurrent: random() < 0.5 ? some(6) : null,
    perMinute: random() < 0.4 ? some(30) : null,
  }
}

/** Makes a tree with a key of its own. */
async function createTree({ gateway }: LoopStage, number: number, limits: Limits): Promise<Tree> {
  const random = createRandom(number)
  const end = pick(random, ENDS)
  const limit = random() < 0.4 ? BigInt(Math.floor(random() * 3_000_000) + 100_000) : null
  const made = await createKey(gateway, getOperator(gateway), {
    name: `k${number}`,
    ...(limit === null ? {} : { limit: Number(limit) / 1e9 }),
  })
  const maxCost = random() < 0.3 ? BigInt(Math.floor(random() * 300_000) + 1_000) : null
  const maxTokens = random() < 0.3 ? 1 + Math.floor(random() * 300) : null
  const stops = [
    ...(maxCost === null ? [] : [{ type: 'max_cost', max_cost_in_dollars: Number(maxCost) / 1e9 }]),
    ...(maxTokens === null ? [] : [{ type: 'max_tokens_used', max_tokens: maxTokens }]),
    ...(random() < 0.2 ? [{ type: 'finish_reason_is', reason: 'length' }] : []),
  ]
  const brings = random()
  const body: Json = {
    text: `tree ${number} `,
    model: `acme/${pick(random, ['openai-chat', 'anthropic-messages', 'gemini'])}`,
    stream: random() < 0.5,
    ...(brings < 0.15 ? { preset: 'tools' } : { tools: buildTools(random) }),
    ...(brings > 0.85
      ? { plugins: [{ id: 'fusion', analysis_models: ['acme/gemini'], model: 'acme/cohere-chat' }] }
      : brings > 0.7
        ? { plugins: [{ id: 'moderation' }] }
        : {}),
    ...(stops.length > 0 ? { stop_server_tools_when: stops } : {}),
  }
  const tree: Tree = {
    ...{ number, random, end, maxCost, maxTokens, limit, body, hasEnded: false },
    door: random() < 0.15 ? 'batch' : pick(random, DOORS),
    endAt: 1 + Math.floor(random() * Math.min(12, limits.calls)),
    key: { hash: made.data.hash, secret: made.key },
    client: new AbortController(),
    ...{ calls: 0, asked: 0, running: 0, mostRunning: 0, taken: 0, beforeTenant: null },
  }
  trees.set(number, tree)
  return tree
}

const scenario: Scenario = ({ lines, choice, tools }: ReceivedRequest) => {
  const tree = findTree(lines.join('\n'))
  if (!tree) return { answer: { text: 'Hello.', finish: 'stop' } }
  const { random, number } = tree
  tree.calls += 1
  if (random() < 0.03) return 'is overloaded'
  tree.taken += 1
  if (choice === 'none' || tools.length === 0 || random() < 0.15)
    return { answer: { text: 'So be it.', finish: 'stop' } }
  const prompt = `tree ${number} within`
  return {
    answer: {
      calls: Array.from({ length: 1 + Math.floor(random() * MOST_USES) }, (_, i) => ({
        id: `call_${i}`,
        name: pick(random, [...tools, 'nobodys']),
        input: JSON.stringify({
          ...{ prompt, task_name: 't', task_description: prompt, query: prompt },
        }),
      })),
      finish: 'tool_calls',
    },
  }
}

/** Ends trees when they have made so many calls. */
class Ender {
  stage: LoopStage | null = null
  copy: string | null = null
  /** What providers had taken of each tree when the process was killed. */
  readonly takenAtKill = new Map<number, number>()
  #data: string | null

  constructor(data: string | null) {
    this.#data = data
  }

  readonly pace = async ({ lines }: ReceivedRequest, signal: AbortSignal): Promise<void> => {
    const tree = findTree(lines.join('\n'))
    if (!tree) return
    tree.running += 1
    tree.mostRunning = Math.max(tree.mostRunning, tree.running)
    if (tree.calls >= tree.endAt && !tree.hasEnded) this.#end(tree)
    const isHung = tree.hasEnded && ['leave', 'disable', 'delete', 'stop'].includes(tree.end)
    // A call that has no tools of the gateway is not stopped: its answer comes in the end.
    for (let turns = isHung ? LONG_TURNS : 1; turns > 0 && !signal.aborted; turns--)
      await new Promise(resolve => setImmediate(resolve))
    tree.running -= 1
  }

  #end(tree: Tree): void {
    const { stage } = this
    if (!stage) return
    tree.hasEnded = true
    const { gateway, money } = { gateway: stage.gateway, money: stage.gateway.ledger }
    const operator = getOperator(gateway)
    const { hash } = tree.key
    switch (tree.end) {
      case 'leave':
        // A line of a batch has no client.
        if (tree.door === 'batch') void deleteKey(gateway, operator, hash)
        else tree.client.abort()
        break
      case 'disable':
        void updateKey(gateway, operator, hash, { disabled: true })
        break
      case 'delete':
        void deleteKey(gateway, operator, hash)
        break
      case 'limit':
        tree.limit =
          money.getSpent(`key ${hash}`, null, false) + money.getHeld(`key ${hash}`, false)
        void updateKey(gateway, operator, hash, { limit: Number(tree.limit) / 1e9 })
        break
      case 'stop':
        void gateway.traffic.calls.drain(60_000)
        break
      case 'kill':
        if (this.#data) this.#kill(this.#data)
        break
      default:
    }
  }

  // What a killed process leaves is what is on the disk at that moment.
  #kill(data: string): void {
    if (this.copy) return
    this.copy = mkdtempSync(join(tmpdir(), 'gateway-tree-killed-'))
    cpSync(data, this.copy, { recursive: true })
    for (const { number, taken, end } of trees.values())
      if (end === 'kill') this.takenAtKill.set(number, taken)
  }
}

async function runTree(stage: LoopStage, tree: Tree): Promise<number> {
  const { door, body, client, key } = tree
  if (door === 'batch') return runBatchLine(stage, tree)
  const response = await stage.send(door, body, {
    signal: client.signal,
    headers: { authorization: `Bearer ${key.secret}`, 'x-title': String(body.text) },
  })
  const reader = response.body?.getReader()
  client.signal.addEventListener('abort', () => void reader?.cancel().catch(() => undefined))
  if (client.signal.aborted) await reader?.cancel().catch(() => undefined)
  while (!(await reader?.read().catch(() => ({ done: true })))?.done);
  return response.status
}

async function runBatchLine({ gateway }: LoopStage, { body, key, number }: Tree): Promise<number> {
  const { text, ...rest } = body
  const record = gateway.memory.keys.get(key.hash)
  if (!record) return 401
  const outcome = await runLine(gateway, {
    batch: { id: `batch-${number}` } as never,
    dialect: chat as unknown as Dialect,
    actor: buildKeyActor(gateway, record),
    request: {
      ...{ line: number, custom_id: null },
      body: {
        ...rest,
        stream: false,
        max_tokens: 100,
        messages: [{ role: 'user', content: text }],
      },
    } as never,
  })
  return 'after' in outcome ? 429 : 200
}

/** Asks a model for another tenant in the middle of a tree, and counts what that does meanwhile. */
async function askBeside(stage: LoopStage, tree: Tree, secret: string): Promise<void> {
  while (tree.calls < 2 && !tree.hasEnded && stage.gateway.traffic.calls.size > 0)
    await new Promise(resolve => setImmediate(resolve))
  const before = tree.calls
  const response = await stage.send(
    'chat',
    { text: 'Hi' },
    { headers: { authorization: `Bearer ${secret}` } },
  )
  await response.text()
  if (response.status === 200) tree.beforeTenant = tree.calls - before
}

/** Checks one tree against its bounds and its charges. */
async function expectTree(stage: LoopStage, tree: Tree, limits: Limits): Promise<void> {
  const { gateway } = stage
  const { calls, asked, mostRunning, maxCost, maxTokens, limit, key, taken, number } = tree
  const spent = gateway.ledger.getSpent(`key ${key.hash}`, null, false)
  const generations = stage.generations.filter(({ key_hash }) => key_hash === key.hash)
  const most = Math.min(limits.calls, limits.perMinute ?? Number.POSITIVE_INFINITY)
  const isHalved = tree.door === 'batch'
  const places = limits.concurrent ?? Number.POSITIVE_INFINITY
  expect([number, calls + asked <= most]).toEqual([number, true])
  expect([
    number,
    mostRunning <=
      Math.max(
        1,
        Math.min(limits.at_once, isHalved ? Math.max(1, Math.floor(places / 2)) : places),
      ),
  ]).toEqual([number, true])
  if (limit !== null) expect([number, spent <= limit]).toEqual([number, true])
  const recorded = generations.reduce((sum, one) => sum + (one.total_cost ?? 0n), 0n)
  expect([number, spent]).toEqual([number, recorded])
  expect(gateway.ledger.getHeld(`key ${key.hash}`, true)).toBe(0n)
  const charges = (
    await Promise.all(generations.map(({ id }) => gateway.store.ledger.listCharges(id)))
  ).flat()
  // Each prompt that a provider took is charged: those of pictures are not among these calls.
  const paid = charges.filter(({ nanos }) => nanos > 0n).length
  expect([number, paid >= taken]).toEqual([number, true])
  const isExact = generations.every(({ usageSource }) => usageSource !== 'estimated')
  const uses = BigInt(MOST_USES) * PRICE
  if (isExact && maxCost !== null)
    expect([number, spent <= maxCost + uses + 2n * TURN]).toEqual([number, true])
  if (isExact && maxTokens !== null)
    expect([number, 15 * taken <= maxTokens + 30]).toEqual([number, true])
  for (const { steps, provider_responses } of generations)
    if (steps.length > 0) expect(provider_responses.length).toBeGreaterThanOrEqual(calls)
  if (tree.beforeTenant !== null)
    expect(tree.beforeTenant).toBeLessThanOrEqual(4 * limits.at_once + 4)
}

/** Opens what a killed process has left, and checks that each prompt is charged there. */
async function expectRecovered(
  copy: string,
  config: Json,
  ender: Ender,
  some: Tree[],
): Promise<void> {
  const gateway = await testGateway({ data: copy, config, tools: TOOLS })
  await recoverCalls(gateway)
  expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
  for (const { key, number, limit } of some) {
    const spent = gateway.ledger.getSpent(`key ${key.hash}`, null, false)
    if ((ender.takenAtKill.get(number) ?? 0) > 0)
      expect([number, spent > 0n]).toEqual([number, true])
    if (limit !== null) expect([number, spent <= limit]).toEqual([number, true])
    expect(gateway.ledger.getHeld(`key ${key.hash}`, true)).toBe(0n)
  }
  await gateway.close()
  rmSync(copy, { recursive: true, force: true })
}

/** What stands beside the models. */
interface Others {
  painter: { url: string }
  remote: { url: string }
  engine: { url: string }
  judge: { url: string }
}

const buildConfig = (
  base: Json,
  limits: Limits,
  { painter, remote, engine, judge }: Others,
): Json => ({
  ...base,
  providers: {
    ...(base.providers as Json),
    painter: { protocol: 'openai-chat', base_url: painter.url, api_key: 'mock' },
    judge: { protocol: 'openai-chat', base_url: judge.url, api_key: 'mock' },
  },
  plugins: { ...(base.plugins as Json), moderation: { provider: 'judge', model: 'judge' } },
  models: [
    ...(base.models as Json[]),
    {
      id: 'acme/painter',
      output_modalities: ['image'],
      endpoints: [
        {
          ...{ provider: 'painter', model: 'draw-1' },
          usd_per_million_tokens: { prompt: 0, completion: 0, per_image: Number(PICTURE) / 1e9 },
        },
      ],
    },
  ],
  limits: {
    tree: { calls: limits.calls, at_once: limits.at_once, depth: limits.depth },
    ...(limits.concurrent === null ? {} : { concurrent_requests: limits.concurrent }),
    ...(limits.perMinute === null ? {} : { requests_per_minute: limits.perMinute }),
  },
  mcp_servers: { remote: { url: remote.url, usd_per_call: Number(PRICE) / 1e9 } },
  web_search: {
    engines: { searxng: { base_url: engine.url, usd_per_search: Number(PRICE) / 1e9 } },
  },
})

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

/** Runs some trees at one gateway with limits of its own. */
async function runAtOneGateway(
  first: number,
  others: Others,
  tally: Map<string, number>,
): Promise<void> {
  const random = createRandom(1_000_003 * (first + 1))
  const limits = buildLimits(random)
  const data = random() < 0.2 ? mkdtempSync(join(tmpdir(), 'gateway-tree-')) : null
  const ender = new Ender(data)
  const stage = await openLoopStage(scenario, {
    tools: TOOLS,
    pace: ender.pace,
    changeConfig: base => buildConfig(base, limits, others),
    ...(data === null ? {} : { parts: { data } }),
  })
  ender.stage = stage
  const { gateway } = stage
  await createPreset(gateway, getOperator(gateway), 'tools', {
    system_prompt: null,
    config: { tools: [{ type: 'gateway:advisor', parameters: INNER }, { type: 'gateway:priced' }] },
  })
  const some: Tree[] = []
  for (let i = 0; i < AT_ONE_GATEWAY; i++) some.push(await createTree(stage, first + i, limits))
  // Those that end all others are the last.
  const stopping = some.find(({ end }) => end === 'stop')
  const tenant = await createKey(gateway, getOperator(gateway), { name: 'tenant' })
  for (const group of [some.filter(({ end }) => end !== 'stop'), stopping ? [stopping] : []]) {
    const beside = group[0] && random() < 0.5 ? askBeside(stage, group[0], tenant.key) : null
    await Promise.all(group.map(tree => runTree(stage, tree)))
    await beside
  }
  await gateway.traffic.calls.drain(60_000)
  await gateway.recorder.flush()
  for (const tree of some) {
    await expectTree(stage, tree, limits)
    tally.set(
      tree.hasEnded ? tree.end : 'itself',
      (tally.get(tree.hasEnded ? tree.end : 'itself') ?? 0) + 1,
    )
    tally.set('calls', (tally.get('calls') ?? 0) + tree.calls)
    tally.set('asked', (tally.get('asked') ?? 0) + tree.asked)
  }
  expect([gateway.traffic.calls.size, gateway.traffic.admission.calls.used]).toEqual([0, 0])
  expect(gateway.traffic.counters.exportRunning()).toEqual(new Map())
  expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
  await stage.close()
  if (ender.copy) {
    const config = buildConfig(
      buildLoopConfig(() => 'http://127.0.0.1:9/v1'),
      limits,
      others,
    )
    await expectRecovered(
      ender.copy,
      config,
      ender,
      some.filter(({ end }) => end === 'kill'),
    )
    tally.set('killed', (tally.get('killed') ?? 0) + 1)
  }
  if (data) rmSync(data, { recursive: true, force: true })
  for (const { number } of some) trees.delete(number)
}

test(
  `${CASES} random trees stay within their bounds, and what providers took is charged`,
  async () => {
    const painter = await startUpstream()
    painter.answer(() => json({ created: 1, data: [{ b64_json: PNG }] }))
    const engine = await startUpstream()
    engine.answer(({ path }) => {
      const tree = findTree(decodeURIComponent(path).replaceAll('+', ' '))
      if (tree) tree.asked += 1
      return json({ results: [{ url: 'https://example.com/a', title: 'A', content: 'a' }] })
    })
    const judge = await startUpstream()
    judge.answer(({ body, json: asked }) => {
      const tree = findTree(body)
      if (tree) tree.asked += 1
      return json({ results: (asked as { input: string[] }).input.map(() => ({ flagged: false })) })
    })
    const remote = startMcpServer({
      isJson: true,
      tools: [{ name: 'do', run: () => textResult('ok', false) }],
    })
    const tally = new Map<string, number>()
    for (let first = 0; first < CASES; first += AT_ONE_GATEWAY)
      await runAtOneGateway(first, { painter, remote, engine, judge }, tally)
    if (LONG) process.stdout.write(`seed ${SEED}: ${JSON.stringify([...tally])}\n`)
    for (const end of ENDS)
      if (end !== 'kill') expect([end, (tally.get(end) ?? 0) > 0]).toEqual([end, true])
    expect(tally.get('killed')).toBeGreaterThan(0)
    expect(tally.get('asked')).toBeGreaterThan(CASES / 10)
    await Promise.all([painter.close(), engine.close(), judge.close(), remote.close()])
  },
  LONG ? 3_600_000 : 180_000,
)
