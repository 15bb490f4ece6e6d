import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../src/app/gateway.ts'
import { computePercentile, shuffle } from '../src/cli/bench/statistics.ts'
import { parseConfig } from '../src/config.ts'
import { type Send, toIncomingResponse } from '../src/network/egress.ts'
import { createDestination, pauseDestination } from '../src/observability/destinations.ts'
import { getOperator } from '../src/resources/actor.ts'
import { createKey } from '../src/resources/keys.ts'
import { createWorkspace, updateWorkspace } from '../src/resources/workspaces.ts'
import { createApp } from '../src/server/app.ts'

/*
 * `bun run bench/destination-cost.ts [ROUNDS] [AT_ONCE] [CASE]`: what destinations cost a call,
 * without sockets: the CPU time for blocks of calls with none to three paused destinations, in a new
 * order each round, as a server records them: a block ends when all of it is in the database. In the
 * case `full` their queue is at its bound. In the cases `webhook` and `otel-collector` destinations
 * of this type take everything at once, and a block ends when all is delivered.
 *
 * What is told, of all threads and of the one that serves calls, is the difference to the block
 * before within a round, so that a machine that is busy for a while is in both: its median over the
 * rounds, and between which differences the middle half of them lies; then what the fastest
 * twentieth of each kind's blocks take, which a busy machine changes least. 150 rounds and 10 calls
 * at once without arguments. Two trees are compared by running them in turn.
 */
const [rounds = '150', atOnce = '10', chosen = 'paused'] = process.argv.slice(2)
const [ROUNDS, AT_ONCE] = [Number(rounds), Number(atOnce)]
const TYPE: 'otel-collector' | 'webhook' = chosen === 'otel-collector' ? chosen : 'webhook'
const IS_TOLD = chosen === TYPE
/** In the case `full` the blocks that warm up fill the queue. */
const BOUND = chosen === 'full' ? 20_000 : 100_000_000
const CALLS = IS_TOLD ? 400 : 120
const WARM_UP = IS_TOLD ? 12 : 40
const COUNTS = [0, 1, 2, 3]

const CONFIG = {
  providers: {
    local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' },
  },
  security: { allow_private_urls: ['127.0.0.1:9'] },
  telemetry: { queue_rows: BOUND, queue_mib: 1_000_000 },
  models: [
    {
      id: 'bench/model',
      context_length: 100_000,
      endpoints: [
        { provider: 'local', model: 'm', usd_per_million_tokens: { prompt: 1, completion: 2 } },
      ],
    },
  ],
}
const ANSWER = JSON.stringify({
  ...{ id: 'x', object: 'chat.completion', created: 1, model: 'm' },
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'All work, measured. '.repeat(40) },
      finish_reason: 'stop',
    },
  ],
  usage: { prompt_tokens: 60, completion_tokens: 160, total_tokens: 220 },
})
const BODY = JSON.stringify({
  model: 'bench/model',
  messages: [{ role: 'user', content: 'What did we measure last week, and why? '.repeat(7) }],
})

const RECEIVER = 'http://127.0.0.1:9/traces'

/** A provider, and receivers of traces, that answer at once. */
const egress: Send = async ({ url, onSent }) => {
  onSent?.()
  if (url === RECEIVER) return toIncomingResponse(new Response('{}'))
  const headers = { 'content-type': 'application/json' }
  return toIncomingResponse(new Response(ANSWER, { headers }))
}

const home = mkdtempSync(join(tmpdir(), 'gateway-bench-'))
process.once('exit', () => rmSync(home, { recursive: true, force: true }))
const config = parseConfig(JSON.stringify(CONFIG), {})
const gateway = await openGateway({ data: home, access: 'server', egress, config })
const keys: string[] = []
for (const count of COUNTS) keys.push(await addWorkspace(gateway, count))
await gateway.deliveries.start()
const app = createApp(gateway)

for (let i = 0; i < WARM_UP; i++) for (const key of keys) await measureBlock(key)
const taken = keys.map((key): { key: string; figures: CpuTimes[] } => ({ key, figures: [] }))
for (let round = 0; round < ROUNDS; round++)
  for (const { key, figures } of shuffle(taken)) figures.push(await measureBlock(key))
report()
process.exit(0)

/** Microseconds of CPU for each call: of all threads, and of the one that serves calls. */
type CpuTimes = Record<'all' | 'main', number>

/** Prints what a call costs, and what each destination adds to it. */
function report(): void {
  for (const threads of ['all', 'main'] as const) {
    const costs = taken.map(({ figures }) => figures.map(times => times[threads]))
    const [without = [], ...others] = costs
    const added = others.map((figures, i) =>
      describe(figures.map((cost, round) => cost - (costs[i]?.[round] ?? Number.NaN))),
    )
    const name = threads === 'all' ? 'all threads' : "the calls' thread"
    process.stdout.write(
      `${name}: a call ${describe(without)} µs; destinations add ${added.join(', ')}\n` +
        `  fastest: ${costs.map(findFastest).join(', ')} µs for none to three\n`,
    )
  }
}

/** Renders the median, and the quartiles beside it. */
function describe(figures: number[]): string {
  const [low, median, high] = [0.25, 0.5, 0.75].map(share =>
    computePercentile(figures, share).toFixed(1),
  )
  return `${median} (${low} to ${high})`
}

/** Renders what the fastest twentieth takes at most. */
function findFastest(figures: number[]): string {
  return computePercentile(figures, 0.05).toFixed(1)
}

async function measureBlock(key: string): Promise<CpuTimes> {
  // What the scheduler tells of a thread that runs is as old as its last tick.
  const before = { all: process.cpuUsage(), main: process.threadCpuUsage() }
  let left = CALLS
  const ask = async () => {
    while (left-- > 0) await call(key)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, ask))
  await gateway.recorder.flush()
  while (IS_TOLD && gateway.deliveries.list().some(({ waiting }) => waiting > 0))
    await Bun.sleep(20)
  return {
    all: sumTimes(process.cpuUsage(before.all)) / CALLS,
    main: sumTimes(process.threadCpuUsage(before.main)) / CALLS,
  }
}

function sumTimes({ user, system }: NodeJS.CpuUsage): number {
  return user + system
}

async function call(key: string): Promise<void> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
  const request = { method: 'POST', headers, body: BODY }
  const url = 'http://localhost/api/v1/chat/completions'
  const response = await app.handle(new Request(url, request))
  const text = await response.text()
  if (response.status !== 200) throw new Error(text)
}

/** Adds a workspace with so many paused destinations, and returns its key. */
async function addWorkspace(own: Gateway, count: number): Promise<string> {
  const operator = getOperator(own)
  const name = `with-${count}`
  const { id } = (await createWorkspace(own, operator, { name, slug: name })).data
  await updateWorkspace(own, operator, id, { is_observability_broadcast_enabled: true })
  for (let i = 0; i < count; i++) {
    const config = TYPE === 'webhook' ? { url: RECEIVER } : { endpoint: RECEIVER }
    const receiver = { type: TYPE, name: 'receiver', config, workspace_id: id }
    const made = (await createDestination(own, operator, receiver)).data
    if (!IS_TOLD) await pauseDestination(own, operator, made.id)
  }
  return (await createKey(own, operator, { name, workspace_id: id })).key
}
