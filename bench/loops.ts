import type { TSchema } from '@sinclair/typebox'
import { type Gateway, openGateway } from '../src/app/gateway.ts'
import { computePercentile, computeSpread } from '../src/cli/bench/statistics.ts'
import { parseConfig } from '../src/config.ts'
import { infer } from '../src/engine/infer.ts'
import type { Plugin } from '../src/extensions/plugin.ts'
import type { ServerTool } from '../src/extensions/server-tool.ts'
import type { TextCall } from '../src/language/call.ts'
import type { Message } from '../src/language/message.ts'
import { type Send, toIncomingResponse } from '../src/network/egress.ts'
import { getOperator } from '../src/resources/actor.ts'
import { decodeOutgoing } from '../test/support/outgoing.ts'

/**
 * Measures what the loop around a call adds to its turns: the CPU time of this process for a call of
 * five turns with a tool and one without, less that of the same turns as a plugin asks for them. And
 * what memory is left after many loops at once. No server runs, and nothing is sent.
 */
const STEPS = 5
/** Pairs of a block of calls with tools and one without, side by side in time. */
const PAIRS = 48
const CALLS = 80
const WARM_UP = 1_600
/** The most microseconds that the loop may add to a step. */
const LIMIT = 100
const AT_ONCE = 200
const MEMORY_ROUNDS = 12
/** The most bytes that may be left over of a loop. */
const LEFT_OVER = 4_096

async function main(): Promise<void> {
  const gateway = await openGateway({
    config: parseConfig(JSON.stringify(CONFIG), {}),
    egress: answerAtOnce,
    plugins: [repeat as Plugin],
    tools: [clock],
  })
  const own = await reportCost(gateway)
  const left = await reportMemory(gateway)
  await gateway.close()
  const isBroken = own > LIMIT || left > LEFT_OVER
  print(isBroken ? 'A limit is broken.' : 'Within its limits.')
  process.exit(isBroken ? 1 : 0)
}

const CONFIG = {
  providers: {
    local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' },
  },
  models: [
    {
      id: 'acme/small',
      context_length: 100_000,
      endpoints: [
        {
          provider: 'local',
          model: 'm',
          usd_per_million_tokens: { prompt: 1, completion: 2 },
        },
      ],
    },
  ],
}

const CALL = {
  id: 'call_1',
  type: 'function',
  function: { name: 'datetime', arguments: '{"timezone":"Asia/Tokyo"}' },
}
const RESULT = '{"datetime":"2026-03-04T14:06:07+09:00","timezone":"Asia/Tokyo"}'

const buildAnswer = (message: object, finish_reason: string): string =>
  JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }],
    usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 },
  })
const CALLING = buildAnswer({ content: null, tool_calls: [CALL] }, 'tool_calls')
const DONE = buildAnswer({ content: 'Done.' }, 'stop')

/** A provider that calls the tool as long as there are few results. */
const answerAtOnce: Send = async ({ body, onSent }) => {
  onSent?.()
  const results = decodeOutgoing(body).split('"role":"tool"').length - 1
  const text = results < STEPS ? CALLING : DONE
  return toIncomingResponse(new Response(text, { headers: { 'content-type': 'application/json' } }))
}

/** Asks for the turns that the loop would take, with the same messages. */
const repeat: Plugin<object> = {
  id: 'repeat',
  readOptions: () => ({}),
  around: (_, { number, call }) =>
    number > STEPS || call.kind !== 'text'
      ? null
      : { ...call, messages: [...call.messages, ...EXCHANGE] },
}
const EXCHANGE: Message[] = [
  {
    role: 'assistant',
    blocks: [{ type: 'tool-call', id: 'call_1', name: 'datetime', input: CALL.function.arguments }],
  },
  { role: 'tool', tool_call_id: 'call_1', blocks: [{ type: 'text', text: RESULT }] },
]

const DEFINITION = {
  name: 'datetime',
  description: 'Tells the time',
  parameters: { type: 'object' },
}

/** A tool that takes no time. */
const clock: ServerTool = {
  name: 'datetime',
  schema: {} as TSchema,
  readOptions: () => ({}),
  findObstacle: () => null,
  listFunctions: () => [DEFINITION],
  run: async () => ({ text: RESULT, isError: false }),
}

/**
 * Prints the difference within each pair: what else the machine does meanwhile meets both blocks of a
 * pair alike. A pair in which the collector of garbage or the compiler works for one block alone is
 * among the dearest tenth.
 */
async function reportCost(gateway: Gateway): Promise<number> {
  for (let i = 0; i < WARM_UP; i++)
    await runCall(gateway, (i % 2 ? withTools : withPlugin)(`gen-${nextId()}`))
  const own: number[] = []
  const looped: number[] = []
  const repeated: number[] = []
  for (let pair = 0; pair < PAIRS; pair++) {
    const one = await measurePair(gateway, pair % 2 === 0)
    looped.push(one.looped)
    repeated.push(one.repeated)
    own.push((one.looped - one.repeated) / STEPS)
  }
  const { median } = computeSpread(own)
  const [low, high] = [0.1, 0.9].map(share => computePercentile(own, share).toFixed(1))
  print(
    `a turn: ${(computeSpread(repeated).median / (STEPS + 1)).toFixed(0)} µs of CPU; the loop adds ` +
      `${median.toFixed(1)} µs a step (eight of ten pairs: ${low} to ${high}), at most ${LIMIT}`,
  )
  // What disturbs a block makes it dearer: on a busy machine these say most.
  const calm = computePercentile(looped, 0.1) - computePercentile(repeated, 0.1)
  print(`  of the tenth of the blocks that is least disturbed: ${(calm / STEPS).toFixed(1)}`)
  return median
}

async function measurePair(gateway: Gateway, toolsFirst: boolean) {
  const first = await measureCost(gateway, toolsFirst ? withTools : withPlugin)
  const second = await measureCost(gateway, toolsFirst ? withPlugin : withTools)
  return toolsFirst ? { looped: first, repeated: second } : { looped: second, repeated: first }
}

async function measureCost(gateway: Gateway, build: (id: string) => TextCall): Promise<number> {
  const before = process.cpuUsage()
  for (let i = 0; i < CALLS; i++) await runCall(gateway, build(`gen-${nextId()}`))
  const { user, system } = process.cpuUsage(before)
  return (user + system) / CALLS
}

async function reportMemory(gateway: Gateway): Promise<number> {
  const runMany = () =>
    Promise.all(
      Array.from({ length: AT_ONCE }, () => runCall(gateway, withTools(`gen-${nextId()}`))),
    )
  for (let round = 0; round < MEMORY_ROUNDS; round++) await runMany()
  const before = measureHeap()
  for (let round = 0; round < MEMORY_ROUNDS; round++) await runMany()
  const left = (measureHeap() - before) / (AT_ONCE * MEMORY_ROUNDS)
  print(`${AT_ONCE} loops at once: ${left.toFixed(0)} bytes are left of each, at most ${LEFT_OVER}`)
  return left
}

function measureHeap(): number {
  Bun.gc(true)
  return process.memoryUsage().heapUsed
}

let ids = 0
const nextId = () => ++ids

async function runCall(gateway: Gateway, call: TextCall): Promise<void> {
  const answer = await infer(gateway, getOperator(gateway), 'text', call, NEVER)
  await answer.parts.collect()
}

const NEVER = new AbortController().signal

const withTools = (id: string): TextCall => ({
  ...buildCall(id),
  serverTools: {
    requests: [
      {
        name: 'datetime',
        identity: 'datetime',
        type: 'gateway:datetime',
        options: { timezone: 'UTC' },
        field: 'tools.0',
      },
    ],
    stops: [{ type: 'step_count_is', step_count: 30 }],
  },
})

const withPlugin = (id: string): TextCall => ({
  ...buildCall(id),
  tools: [{ type: 'function', ...DEFINITION }],
  plugins: { repeat: {} },
})

const buildCall = (id: string): TextCall => ({
  kind: 'text',
  dialect: 'chat',
  id,
  models: ['acme/small'],
  messages: [{ role: 'user', blocks: [{ type: 'text', text: 'What time is it in Tokyo?' }] }],
  tools: [],
  params: { max_tokens: 100 },
  extra: {},
  betas: [],
  stream: false,
  routing: {},
  user: null,
  session_id: null,
  trace: null,
  preset_id: null,
  echoUpstreamBody: false,
  origin: {
    request_id: 'r',
    http_referer: null,
    title: null,
    user_agent: null,
    region: 'global',
    traceContext: null,
  },
})

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

await main()
