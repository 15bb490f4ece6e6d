import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { openGateway } from '../src/app/gateway.ts'
import { type Child, pinSelf } from '../src/cli/bench/children.ts'
import { getText } from '../src/cli/bench/connection.ts'
import { type Home, runVerb, startGateway } from '../src/cli/bench/contenders.ts'
import { Caller } from '../src/cli/bench/generator.ts'
import { createCpuReader, readCpu } from '../src/cli/bench/procfs.ts'
import { computeSpread, shuffle } from '../src/cli/bench/statistics.ts'
import { renderRequest } from '../src/cli/bench/wire.ts'
import { getOperator } from '../src/resources/actor.ts'
import { createKey } from '../src/resources/keys.ts'
import {
  CORES,
  type Contender,
  getGatewayBinary,
  initGateway,
  renderSingleModelConfig,
  startUpstream,
} from './contenders.ts'
import { growDirectory, guardKey, nameSecret } from './growth/grow.ts'
import { measureKeyMemory } from './growth/memory.ts'
import { nameRecord } from './records.ts'

const USAGE = `bun run bench/growth.ts [--data DIRECTORY] [--records N] [--keys N] [--guardrails N]
  [--models N] [--rounds N] [--calls N]

Compares a gateway whose data directory has grown with an empty one: the CPU that a call costs in
each, in turns of less than a second; the start; the first pages of lists; how long others wait
while another process changes a key, and what that costs; and the memory of a key. Makes the grown directory in a
temporary place, in about ten minutes, unless --data names one with records: it is filled up, and
stays. GATEWAY_BIN names another program than dist/gateway.
`

const CONNECTIONS = 10
const PROVIDERS = 100
/** In one round of calls, so many keys call in turn. */
const CALLERS = 1_000
const STARTS = 5
const READS = 15
const CHANGES = 5
/** So many changes a server hears of, with so many milliseconds between them. */
const FOLLOWED = 100
const PAUSE = 100
/** The record of one call, and the lists whose first page is measured. */
const LISTS = [
  '/generation?id={id}',
  '/keys',
  '/guardrails',
  '/guardrails/assignments/keys',
  '/guardrails/assignments/members',
  '/workspaces',
  '/organization/members',
  '/presets',
  '/byok',
  '/audit',
  '/files',
  '/batches',
  '/models?limit=50',
  '/providers',
  '/observability/destinations',
]

const { values } = parseArgs({
  options: {
    data: { type: 'string' },
    records: { type: 'string', default: '5000000' },
    keys: { type: 'string', default: '100000' },
    guardrails: { type: 'string', default: '1000' },
    models: { type: 'string', default: '5000' },
    rounds: { type: 'string', default: '15' },
    calls: { type: 'string', default: '2000' },
    'warm-up': { type: 'string', default: '15000' },
    help: { type: 'boolean', default: false },
  },
})
const home = mkdtempSync(join(tmpdir(), 'gateway-growth-'))
process.once('exit', () => rmSync(home, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(1))

if (values.help) print(USAGE.trim())
else await main()
process.exit(0)

type Pair<Value> = Record<'empty' | 'grown', Value>

async function main(): Promise<void> {
  const size = {
    records: Number(values.records),
    keys: Number(values.keys),
    guardrails: Number(values.guardrails),
  }
  const directory = values.data ?? join(home, 'grown', 'data')
  const marker = join(directory, 'growth.json')
  if (!existsSync(marker))
    writeFileSync(marker, JSON.stringify({ management: await growDirectory(directory, size) }))
  const { management } = JSON.parse(await Bun.file(marker).text()) as { management: string }
  pinSelf(CORES.tools)
  const upstream = await startUpstream(home, {})
  const homes = await prepareHomes(upstream, directory)
  const { records, keys, guardrails } = size
  print(`${records} records, ${keys} keys, ${guardrails} guardrails, ${values.models} models`)
  await measureStarts(homes)
  const servers = {
    empty: await startGateway(homes.empty, 'empty'),
    grown: await startGateway(homes.grown, 'grown'),
  }
  await measureReads(servers.grown, management, records)
  await measureCalls(servers, keys)
  await measureChanges(homes, servers)
  await measureFollowing(homes, servers)
  for (const server of Object.values(servers)) await server.stop()
  await measureKeyMemory(directory)
}

/** Prepares an empty data directory, and the config of the grown one. */
async function prepareHomes(upstream: Child, directory: string): Promise<Pair<Home>> {
  const program = [getGatewayBinary()]
  const empty = join(home, 'empty')
  const key = await initGateway(renderSingleModelConfig(upstream), empty, program)
  await guardKey(join(empty, 'data'), key)
  writeFileSync(join(directory, 'gateway.yaml'), renderLargeConfig(upstream, Number(values.models)))
  return {
    empty: { program, data: join(empty, 'data'), key },
    grown: { program, data: directory, key: nameSecret(0) },
  }
}

/** Renders a config of many models at many providers, the mock's model among them. */
function renderLargeConfig(upstream: Child, models: number): string {
  const [head = '', tail = ''] = renderSingleModelConfig(upstream).split('models:\n')
  const providers = Array.from(
    { length: PROVIDERS },
    (_, n) => `  p${n}: { protocol: openai-chat, base_url: "${upstream.url}/v1", api_key: mock }\n`,
  )
  const others = Array.from(
    { length: models },
    (_, n) => `  - id: many/model-${n}
    name: Model ${n}
    context_length: 128000
    endpoints:
      - provider: p${n % PROVIDERS}
        model: model-${n}
        usd_per_million_tokens: { prompt: 0.15, completion: 0.6 }
`,
  )
  return `${head}${providers.join('')}models:\n${others.join('')}${tail}`
}

/** Measures the time from the start of the process to its first answer. */
async function measureStarts(homes: Pair<Home>): Promise<void> {
  const times: Pair<number[]> = { empty: [], grown: [] }
  const worked: Pair<number[]> = { empty: [], grown: [] }
  for (let round = 0; round < STARTS; round++)
    for (const which of shuffle(['empty', 'grown'] as const)) {
      const began = performance.now()
      const server = await startGateway(homes[which], 'start')
      await getText(server.url, '/health')
      times[which].push(performance.now() - began)
      worked[which].push(readCpu(server.pid) / 1_000)
      await server.stop()
    }
  printPair('start to the first answer, ms', times)
  printPair('of that CPU, ms', worked)
}

/** Measures the first page of every list, and one record among all. */
async function measureReads(
  { target }: Contender,
  management: string,
  records: number,
): Promise<void> {
  const headers = { authorization: `Bearer ${management}` }
  for (const path of LISTS) {
    const times: number[] = []
    for (let n = 0; n < READS; n++) {
      const place = Math.floor((records * (n + 0.5)) / READS)
      const url = `${target.url}/api/v1${path.replace('{id}', nameRecord(place))}`
      const began = performance.now()
      const answer = await fetch(url, { headers })
      const { length } = await answer.text()
      times.push(performance.now() - began)
      if (!answer.ok) throw new Error(`${path}: ${answer.status}`)
      if (n === READS - 1) print(`GET ${path}: ${renderSpread(times)} ms, ${length} bytes`)
    }
  }
}

/** Measures the CPU of a call in both, in turns: of one key, and of many keys of the grown one. */
async function measureCalls(servers: Pair<Contender>, keys: number): Promise<void> {
  const { url } = servers.grown.target
  const many = Array.from({ length: Math.min(CALLERS, keys) }, (_, n) =>
    renderRequest({ url, key: nameSecret(n) }, false),
  )
  const rows = [
    {
      name: 'empty',
      server: servers.empty,
      requests: [renderRequest(servers.empty.target, false)],
    },
    {
      name: 'grown',
      server: servers.grown,
      requests: [renderRequest(servers.grown.target, false)],
    },
    { name: 'many keys', server: servers.grown, requests: many },
  ].map(row => ({ ...row, costs: [] as number[] }))
  for (const row of rows) await measureCall(row, Number(values['warm-up']))
  for (let round = 0; round < Number(values.rounds); round++)
    for (const row of shuffle(rows)) row.costs.push(await measureCall(row, Number(values.calls)))
  for (const { name, costs } of rows) {
    const ratios = costs.map((cost, round) => cost / (rows[0]?.costs[round] ?? Number.NaN))
    const ratio = computeSpread(ratios).median.toFixed(3)
    print(`call, ${name}: ${renderSpread(costs)} µs of CPU, ${ratio} of the empty gateway`)
  }
}

async function measureCall(
  { server, requests, name }: { server: Contender; requests: Buffer[]; name: string },
  calls: number,
): Promise<number> {
  const cpu = createCpuReader(server.pid)
  let [begun, failed] = [0, 0]
  const callers = Array.from({ length: CONNECTIONS }, () => new Caller(server.url))
  const keepCalling = async (caller: Caller) => {
    while (begun < calls) {
      const request = requests[begun++ % requests.length] as Buffer
      if (!(await new Promise<boolean>(done => caller.call(request, done)))) failed++
    }
  }
  await Promise.all(callers.map(keepCalling))
  const cost = cpu() / calls
  for (const caller of callers) caller.leave()
  if (failed > 0) throw new Error(`${name}: ${failed} calls failed`)
  return cost
}

/** Measures the longest wait for `/health` while another process changes a key, and without that. */
async function measureChanges(homes: Pair<Home>, servers: Pair<Contender>): Promise<void> {
  const waits: Pair<number[]> = { empty: [], grown: [] }
  const quiet: Pair<number[]> = { empty: [], grown: [] }
  const costs: Pair<number[]> = { empty: [], grown: [] }
  for (let round = 0; round < CHANGES; round++)
    for (const which of shuffle(['empty', 'grown'] as const)) {
      const { url, pid } = servers[which]
      quiet[which].push(await watchHealth(url, Bun.sleep(500)))
      const cpu = createCpuReader(pid)
      const change = runVerb(homes[which], ['keys', 'create', '--name', `changed ${round}`])
      waits[which].push(
        await watchHealth(
          url,
          change.then(() => Bun.sleep(200)),
        ),
      )
      costs[which].push(cpu() / 1_000)
    }
  printPair('longest wait in half a second, ms', quiet)
  printPair('longest wait with a change, ms', waits)
  printPair('CPU of that time, ms', costs)
}

/** Measures what it costs a server that another process changes something. */
async function measureFollowing(homes: Pair<Home>, servers: Pair<Contender>): Promise<void> {
  for (const which of ['empty', 'grown'] as const) {
    const gateway = await openGateway({ data: homes[which].data })
    const cpu = createCpuReader(servers[which].pid)
    await Bun.sleep(FOLLOWED * PAUSE)
    const idle = cpu()
    const busy = createCpuReader(servers[which].pid)
    for (let n = 0; n < FOLLOWED; n++) {
      await createKey(gateway, getOperator(gateway), { name: `followed ${n}` })
      await Bun.sleep(PAUSE)
    }
    const cost = (busy() - idle) / FOLLOWED / 1_000
    print(`a change of another process, ${which}: ${cost.toFixed(2)} ms of CPU`)
    await gateway.close()
  }
}

/** Asks for `/health` until the work is done, and returns the longest wait in milliseconds. */
async function watchHealth(url: string, work: Promise<unknown>): Promise<number> {
  let isDone = false
  const done = work.finally(() => {
    isDone = true
  })
  let longest = 0
  while (!isDone) {
    const began = performance.now()
    await fetch(`${url}/health`).then(answer => answer.text())
    longest = Math.max(longest, performance.now() - began)
  }
  await done
  return longest
}

function printPair(what: string, { empty, grown }: Pair<number[]>): void {
  print(`${what}: empty ${renderSpread(empty)}, grown ${renderSpread(grown)}`)
}

function renderSpread(numbers: number[]): string {
  const { median, least, most } = computeSpread(numbers)
  return `${median.toFixed(1)} (${least.toFixed(1)} to ${most.toFixed(1)})`
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
