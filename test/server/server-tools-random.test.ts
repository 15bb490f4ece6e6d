import { expect, test } from 'bun:test'
import { examineGateway } from '../../src/app/doctor.ts'
import type { Json } from '../../src/base/json.ts'
import type { ServerTool, ToolResult } from '../../src/extensions/server-tool.ts'
import { advisor } from '../../src/extensions/tools/advisor.ts'
import { bash } from '../../src/extensions/tools/bash.ts'
import { datetime } from '../../src/extensions/tools/datetime.ts'
import { files } from '../../src/extensions/tools/files.ts'
import { fusion } from '../../src/extensions/tools/fusion.ts'
import { imageGeneration } from '../../src/extensions/tools/image-generation.ts'
import { mcp } from '../../src/extensions/tools/mcp.ts'
import { shell } from '../../src/extensions/tools/shell.ts'
import { subagent } from '../../src/extensions/tools/subagent.ts'
import type { Generation, GenerationStep } from '../../src/observability/generations/store.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { updateKey } from '../../src/resources/keys.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import type { ReceivedRequest } from '../support/fake-providers/fake-provider.ts'
import { startMcpServer, textResult } from '../support/mcp-server.ts'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'
import { FakeSandbox } from '../support/sandboxes/fake.ts'
import {
  DOORS,
  type Door,
  LOOP_PROTOCOLS,
  type LoopStage,
  openLoopStage,
  TURN,
} from '../support/tool-loop.ts'
import { json, startUpstream, status } from '../support/upstream.ts'

/*
 * Random loops: every kind of tool, tools that cost, fail, throw, hang and ask other models, several
 * at once, turns that fail, clients that leave, conditions and limits of every kind, eight loops side
 * by side on one key. The limit of the key is met again and again: it grows a little whenever it is.
 */

/** The loops that the limit lets through to their own end: all others come on top. */
const THROUGH = LONG ? 2_001 : 64
const AT_ONCE = 8
/** The most loops, whatever the limit does to them. */
const MOST_LOOPS = 4 * THROUGH
/** What a limit grows by, at most, in dollars: some twenty loops. */
const GROWTH = 0.004
const PRICE = 3_000n
/** What a call of the MCP server and a picture cost. */
const REMOTE = 4_000n
const PICTURE = 9_000n

type Random = () => number
const pick = <T>(random: Random, items: readonly T[]): T =>
  items[Math.floor(random() * items.length)] as T

/** A loop as it was asked for, and what the provider saw of it. */
interface Loop {
  random: Random
  door: Door
  body: Json
  stops: Json[] | null
  maxSteps: number
  client: AbortController
  /** Whether tools were off, turn by turn. */
  turns: boolean[]
  /** Whether its client left. */
  left: boolean
}

const loops: Loop[] = []
const findLoop = (name: unknown): Loop => {
  const loop = loops[Number(String(name).match(/\d+/)?.[0])]
  if (!loop) throw new Error(`No loop ${name}`)
  return loop
}

/** A tool that does what the model's arguments say. */
const createTool = (name: string, price: bigint): ServerTool => ({
  name,
  schema: datetime.schema,
  readOptions: () => ({}),
  findObstacle: () => null,
  ...(price === 0n ? {} : { priceUse: () => price }),
  listFunctions: () => [{ name, description: name, parameters: { type: 'object' } }],
  run: (_, { input, cancellation }) => {
    const result: ToolResult = { text: 'ok', isError: false, cost: price }
    switch (input.does) {
      case 'fail':
        return Promise.resolve({ text: 'no', isError: true })
      case 'throw':
        return Promise.reject(new TypeError('broken'))
      case 'leave':
        return new Promise((_, reject) => {
          cancellation.listen(reject)
          leave(findLoop(input.loop))
        })
      default:
        return Promise.resolve(result)
    }
  },
})

const TOOLS = [
  ...[createTool('free', 0n), createTool('priced', PRICE)],
  ...([advisor, subagent, fusion, imageGeneration, files, bash, shell, mcp] as ServerTool[]),
]

const INNER: Json = { model: 'acme/gemini', max_completion_tokens: 100 }
const OF_SUBAGENTS = ['free', 'priced', 'advisor', 'files', 'bash']
const PARAMETERS: Record<string, Json> = {
  advisor: { ...INNER, stream: true },
  subagent: {
    ...INNER,
    max_tool_calls: 2,
    tools: OF_SUBAGENTS.map(name => ({
      type: `gateway:${name}`,
      ...(name === 'bash' ? { parameters: { engine: 'openrouter' } } : {}),
    })),
  },
  fusion: {
    ...{ analysis_models: ['acme/gemini', 'acme/cohere-chat'], model: 'acme/bedrock-converse' },
    ...{ max_completion_tokens: 100, max_tool_calls: 1, tools: [{ type: 'gateway:priced' }] },
  },
  image_generation: { model: 'acme/painter' },
  bash: { engine: 'openrouter' },
  mcp: { server_label: 'remote', require_approval: 'never' },
}

/** What models call, of every tool and of none. */
const FUNCTIONS = [
  ...['free', 'free', 'priced', 'nobodys', 'advisor', 'subagent', 'fusion'],
  ...['image_generation', 'files', 'bash', 'shell', 'remote__do'],
]

const DEEDS = ['run', 'run', 'run', 'run', 'fail', 'throw']

const leave = (loop: Loop): void => {
  loop.left = true
  loop.client.abort()
}

/** The arguments of a use of any tool. */
function buildInput(random: Random, number: string): Json {
  const does = random() < 0.03 ? 'leave' : pick(random, DEEDS)
  const ask = `inner loop ${number}`
  const command = COMMANDS[does] ?? `write out/${does}.txt ${does}`
  return {
    ...{ prompt: ask, task_description: ask, does, loop: number },
    ...{ command: `${command} ${number}`, commands: [`${command} ${number}`] },
    ...{ operation: pick(random, ['write', 'read', 'list', 'edit']), filename: 'a.txt' },
    ...{ content: 'One two', old_text: 'two', new_text: 'three' },
  }
}

const COMMANDS: Record<string, string> = { leave: 'hang', fail: 'late', throw: 'read' }

/** A sandbox whose client leaves while a command hangs. */
function createSandbox(): FakeSandbox {
  const sandbox = new FakeSandbox()
  const open = sandbox.open.bind(sandbox)
  sandbox.open = async limits => {
    const box = await open(limits)
    box.hung.promise.then(() => leave(findLoop(box.commands.at(-1)?.text)))
    return box
  }
  return sandbox
}

/** Starts an MCP server with a tool that does what the model's arguments say. */
const startRemote = () =>
  startMcpServer({
    isJson: true,
    tools: [
      {
        name: 'do',
        run({ does, loop }) {
          if (does === 'throw') throw new TypeError('broken')
          if (does !== 'leave') return textResult('ok', does === 'fail')
          leave(findLoop(loop))
          return new Promise(() => undefined)
        },
      },
    ],
  })

/** Starts a model that draws, and fails now and then. */
async function startPainter() {
  const painter = await startUpstream()
  painter.answer(({ json: body }) =>
    findLoop((body as Json).prompt).random() < 0.1
      ? status(500)
      : json({ created: 1, data: [{ b64_json: PNG }] }),
  )
  return painter
}

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

/** What a model does that is asked within a call. */
const answerInner = (loop: Loop, { choice, tools }: ReceivedRequest): ReturnType<Scenario> => {
  const { random } = loop
  if (random() < 0.05) return 'is overloaded'
  if (random() < 0.02) leave(loop)
  if (choice === 'none' || tools.length === 0 || random() < 0.4)
    return { answer: { text: pick(random, ['So be it.', ' ']), finish: 'stop' } }
  const calls = Array.from({ length: 1 + Math.floor(random() * 2) }, (_, i) => ({
    id: `call_${i}`,
    name: pick(random, [...tools, 'nobodys']),
    input: JSON.stringify(buildInput(random, String(loops.indexOf(loop)))),
  }))
  return { answer: { text: 'Hm. ', calls, finish: 'tool_calls' } }
}

const scenario: Scenario = request => {
  const { lines, choice } = request
  const inner = lines.find(line => line.startsWith('user: inner loop '))
  if (inner) return answerInner(findLoop(inner), request)
  const number = lines.find(line => line.startsWith('user: loop '))
  const loop = findLoop(number)
  const { random } = loop
  loop.turns.push(choice === 'none')
  if (random() < 0.02) return 'is overloaded'
  if (choice === 'none' || random() < 0.15) return { answer: { text: 'Done.', finish: 'stop' } }
  const calls = Array.from({ length: 1 + Math.floor(random() * 3) }, (_, i) => ({
    id: `call_${loop.turns.length}_${i}`,
    name: pick(random, FUNCTIONS),
    input: JSON.stringify(buildInput(random, String(loops.indexOf(loop)))),
  }))
  return { answer: { text: 'Hm. ', calls, finish: 'tool_calls' } }
}

const pickStop = (random: Random): Json =>
  pick(random, [
    { type: 'step_count_is', step_count: 1 + Math.floor(random() * 6) },
    {
      type: 'has_tool_call',
      tool_name: pick(random, ['free', 'priced', 'gateway:priced', 'advisor', 'mcp', 'files']),
    },
    { type: 'max_tokens_used', max_tokens: 1 + Math.floor(random() * 90) },
    { type: 'max_cost', max_cost_in_dollars: (1 + Math.floor(random() * 120)) / 1e6 },
    { type: 'finish_reason_is', reason: pick(random, ['tool_calls', 'stop', 'length']) },
  ])

function createLoop(number: number): Loop {
  const random = createSeededRandom(SEED + number)
  const stops =
    random() < 0.5
      ? null
      : Array.from({ length: 1 + Math.floor(random() * 3) }, () => pickStop(random))
  const maxSteps = stops || random() < 0.5 ? 30 : 1 + Math.floor(random() * 8)
  const door = pick(random, DOORS)
  // Chat has no form for a shell.
  const offered = TOOLS.filter(({ dialects }) => dialects?.includes(door) ?? true)
  const body = {
    text: `loop ${number}`,
    model: `acme/${pick(random, LOOP_PROTOCOLS)}`,
    stream: random() < 0.5,
    tools: offered.map(({ name }) => ({
      type: `gateway:${name}`,
      parameters: PARAMETERS[name] ?? {},
    })),
    ...(stops ? { stop_server_tools_when: stops } : {}),
    ...(maxSteps === 30 ? {} : { max_tool_calls: maxSteps }),
  }
  const client = new AbortController()
  return { random, door, body, stops, maxSteps, client, turns: [], left: false }
}

/** Takes a loop to its end, as a client that may leave. Returns the status of its answer. */
async function runLoop(stage: LoopStage, loop: Loop): Promise<number> {
  const { door, body, client } = loop
  const response = await stage.send(door, body, {
    signal: client.signal,
    headers: { 'x-title': String(body.text) },
  })
  const reader = response.body?.getReader()
  client.signal.addEventListener('abort', () => void reader?.cancel().catch(() => undefined))
  if (client.signal.aborted) await reader?.cancel().catch(() => undefined)
  while (!(await reader?.read().catch(() => ({ done: true })))?.done);
  return response.status
}

/** Tells after which turn the loop had to stop: as the conditions say, by what the record has. */
function findStop({ stops, maxSteps }: Loop, { steps }: Generation): number {
  const conditions = stops ?? [{ type: 'step_count_is', step_count: maxSteps }]
  let tokens = 0
  let cost = 0n
  let turn = 0
  const turns = groupByTurn(steps)
  for (const { model, tools } of turns) {
    turn += 1
    for (const step of [model, ...tools]) {
      tokens += step.native_tokens_prompt + step.native_tokens_completion
      cost += step.cost ?? 0n
    }
    const names = tools
      .filter(({ depth = 0 }) => depth === 0)
      .flatMap(step => [step.function, step.name])
    const isOver = turn === 30 && !conditions.some(({ type }) => BOUNDING.includes(String(type)))
    const hasFired = conditions.some(stop => fires(stop, { turn, tokens, cost, names }))
    if (tools.length > 0 && (isOver || hasFired)) return turn
  }
  return Number.POSITIVE_INFINITY
}

/** Conditions that bound what a loop takes. Where there are none, it has thirty turns with tools. */
const BOUNDING = ['step_count_is', 'max_tokens_used', 'max_cost']

function groupByTurn(steps: GenerationStep[]) {
  const turns: { model: GenerationStep; tools: GenerationStep[] }[] = []
  for (const step of steps)
    if (step.type === 'model' && !step.depth) turns.push({ model: step, tools: [] })
    else turns.at(-1)?.tools.push(step)
  return turns
}

interface Reached {
  turn: number
  tokens: number
  cost: bigint
  names: (string | null)[]
}

function fires(stop: Json, { turn, tokens, cost, names }: Reached): boolean {
  switch (stop.type) {
    case 'step_count_is':
      return turn >= Number(stop.step_count)
    case 'has_tool_call':
      return names.includes(String(stop.tool_name))
    case 'max_tokens_used':
      return tokens >= Number(stop.max_tokens)
    case 'max_cost':
      return Number(cost) >= Math.round(Number(stop.max_cost_in_dollars) * 1e9)
    default:
      // A turn that goes on has called tools.
      return stop.reason === 'tool_calls'
  }
}

const PRICES: Record<string, bigint> = { 'acme/painter': PICTURE }

async function expectLoop({ gateway }: LoopStage, loop: Loop, generation: Generation) {
  const { steps, id, total_cost } = generation
  const charges = await gateway.store.ledger.listCharges(id)
  expect(charges.reduce((sum, { nanos }) => sum + nanos, 0n)).toBe(total_cost ?? 0n)
  expect(new Set(charges.map(({ step }) => step)).size).toBe(charges.length)
  const turns = steps.filter(({ type }) => type === 'model')
  if (steps.length > 0)
    expect(steps.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n)).toBe(total_cost ?? 0n)
  // What a client leaves within a call is charged as far as it is known.
  // One that is longer than what was left for it is cut there, and charged as estimated.
  for (const { name, cost, is_error, depth, finish_reason } of turns)
    if (!(loop.left && depth) && finish_reason !== 'length')
      expect(cost).toBe(is_error ? 0n : (PRICES[name] ?? TURN))

  const stop = findStop(loop, generation)
  const off = loop.turns.indexOf(true)
  // No step after a stop but one without tools, and none without tools before.
  expect(loop.turns.length).toBeLessThanOrEqual(stop + 1)
  if (off !== -1) expect([off, loop.turns.length]).toEqual([stop, stop + 1])
  if (loop.left) expect(generation).toMatchObject({ cancelled: true })
}

const addPainter = ({ providers, models }: Json, base_url: string): Json => ({
  providers: {
    ...(providers as Json),
    painter: { protocol: 'openai-chat', base_url, api_key: 'mock' },
  },
  models: [
    ...(models as Json[]),
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
})

const isUseOf = (name: string) => (step: GenerationStep) =>
  step.type === 'tool' && step.name === `gateway:${name}`

/** How loops ended: by themselves, by the limit in the middle, or refused by it at once. */
interface Tally {
  through: number
  stopped: number
  refused: number
  /** How often the limit was met and grew. */
  met: number
}

/** Counts how the loops ended: those that are refused at once have no record. */
function countEnds({ generations }: LoopStage): Omit<Tally, 'met'> {
  const stopped = generations.filter(one => one.error_type === 'payment_required').length
  const through = generations.length - stopped
  return { through, stopped, refused: loops.length - generations.length }
}

/** Runs eight loops side by side; tells whether the limit stopped or refused any. */
async function runBatch(stage: LoopStage): Promise<boolean> {
  const { stopped } = countEnds(stage)
  const batch = Array.from({ length: AT_ONCE }, (_, i) => createLoop(loops.length + i))
  loops.push(...batch)
  const statuses = await Promise.all(batch.map(loop => runLoop(stage, loop)))
  return statuses.includes(402) || countEnds(stage).stopped > stopped
}

const setLimit = ({ gateway, key }: LoopStage, limit: number) =>
  updateKey(gateway, getOperator(gateway), key.hash, { limit })

/** Runs loops until enough of them were let through, beside a limit that is met again and again. */
async function runLoops(stage: LoopStage, limit: number): Promise<Tally> {
  const random = createSeededRandom(SEED)
  let most = limit
  let met = 0
  for (let ends = countEnds(stage); ends.through < THROUGH || ends.stopped === 0; ) {
    expect(loops.length).toBeLessThan(MOST_LOOPS)
    const isMet = await runBatch(stage)
    expect(stage.money.spent).toBeLessThanOrEqual(BigInt(Math.round(most * 1e9)))
    ends = countEnds(stage)
    if (!isMet) continue
    met += 1
    most += random() * GROWTH
    await setLimit(stage, most)
  }
  // Loops whose client left may still be counted.
  await stage.gateway.traffic.calls.drain(60_000)
  await stage.gateway.recorder.flush()
  return { ...countEnds(stage), met }
}

const renderTally = ({ through, stopped, refused, met }: Tally, turns: number): string =>
  `${loops.length} loops with seed ${SEED}: ${through} to their own end, ${stopped} stopped by ` +
  `the limit in the middle, ${refused} refused by it at once; it was met ${met} times; ` +
  `${turns} turns and uses of tools on record\n`

test(`random loops, ${THROUGH} of them to their end: money, turns and stops are right`, async () => {
  const limit = GROWTH / 2
  const [painter, remote, sandbox] = [await startPainter(), startRemote(), createSandbox()]
  const stage = await openLoopStage(scenario, {
    ...{ tools: TOOLS, limit, parts: { sandboxes: [sandbox] } },
    config: {
      sandbox: { kind: 'just-bash' },
      mcp_servers: { remote: { url: remote.url, usd_per_call: Number(REMOTE) / 1e9 } },
    },
    changeConfig: config => addPainter(config, painter.url),
  })
  // A failing turn is what the model does here, and no sign of its provider's health.
  const tally = await runLoops(stage, limit)
  expect(stage.money.held).toBe(0n)
  const recorded = stage.generations.reduce((sum, one) => sum + (one.total_cost ?? 0n), 0n)
  expect(stage.money.spent).toBe(recorded)
  for (const generation of stage.generations)
    await expectLoop(stage, findLoop(generation.title), generation)
  const turns = stage.generations.reduce((sum, { steps }) => sum + steps.length, 0)
  if (LONG) process.stdout.write(renderTally(tally, turns))
  // Loops of every kind took part, and the limit was met.
  expect(tally.through).toBeGreaterThanOrEqual(THROUGH)
  expect(tally.met).toBeGreaterThan(0)
  expect(stage.generations.some(({ cancelled }) => cancelled)).toBe(true)
  expect(stage.generations.some(({ steps }) => steps.length > 5)).toBe(true)
  const inner = stage.generations.flatMap(({ steps }) => steps.filter(({ depth }) => depth === 1))
  for (const type of ['model', 'tool']) expect(inner.some(step => step.type === type)).toBe(true)
  expect((await examineGateway(stage.gateway)).data.filter(({ ok }) => !ok)).toEqual([])
  expect(stage.gateway.traffic.calls.size).toBe(0)
  for (const { name } of TOOLS)
    expect(stage.generations.some(({ steps }) => steps.some(isUseOf(name)))).toBe(true)
  await stage.close()
  await painter.close()
  await remote.close()
}, 600_000)

test('a provider that counts higher than it was asked for overshoots a limit by one turn', async () => {
  for (let number = 1; number <= (LONG ? 100 : 4); number++) {
    const random = createSeededRandom(SEED + number)
    const output = 200 + Math.floor(random() * 2_000)
    const turn = 10n * 1_000n + BigInt(output) * 2_000n
    const limit = Number(turn) * (2 + random() * 6)
    const stage = await openLoopStage(
      () => ({
        answer: {
          calls: Array.from({ length: 1 + Math.floor(random() * 2) }, (_, i) => ({
            ...{ id: `call_${i}`, name: pick(random, ['free', 'priced', 'fails']), input: '{}' },
          })),
          ...{ finish: 'tool_calls', usage: { input: 10, output } },
        },
      }),
      { tools: TOOLS, limit: limit / 1e9 },
    )
    const tools = ['free', 'priced'].map(name => ({ type: `gateway:${name}` }))
    for (let loop = 0; loop < 3; loop++)
      await stage.ask(pick(random, DOORS), { tools, stream: random() < 0.5 })
    await stage.gateway.recorder.flush()
    const { spent, held } = stage.money
    expect([held, Number(spent) <= limit + Number(turn)]).toEqual([0n, true])
    // The limit did end a loop: what is left is not enough for a turn as it is held.
    expect(stage.generations.some(one => one.error_type === 'payment_required')).toBe(true)
    const sum = stage.generations.reduce((sum, one) => sum + (one.total_cost ?? 0n), 0n)
    expect(spent).toBe(sum)
    expect((await examineGateway(stage.gateway)).data.filter(({ ok }) => !ok)).toEqual([])
    await stage.close()
  }
})
