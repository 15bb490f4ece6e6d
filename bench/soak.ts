import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readResidentMb } from '../src/cli/bench/procfs.ts'
import { computeSpread } from '../src/cli/bench/statistics.ts'
import * as fake from '../test/support/upstream.ts'
import {
  type Contender,
  ensureGateway,
  getGatewayBinary,
  initGateway,
  startGateway,
} from './contenders.ts'

const USAGE = `bun run bench/soak.ts [--minutes N] [--clients N]

Loads dist/gateway (or GATEWAY_BIN) with every fault of a provider and of a client at once, and prints
its memory, descriptors and threads each minute: the medians of a look each second. Ends with 1 if
those of the end are more than 5 % above minute five (or half of a shorter run), if a call got no
answer, or if the books do not hold.
`

/** By how much the end may be above the middle, and what small counts may add to it. */
const GROWTH = 1.05
const SLACK = { mb: 0, descriptors: 2, threads: 1 }

/** In milliseconds: after the load ends, until what it left is counted. */
const REST_MS = 8_000

/** What a process takes. */
interface Sample {
  minute: number
  mb: number
  descriptors: number
  threads: number
}

/** Each answer of the provider, one after the other. */
const SCRIPTS: (() => fake.Script)[] = [
  fake.silenceMidStream,
  fake.htmlError,
  fake.truncatedStream,
  fake.cutInsideTrailer,
  fake.cutInsideChunk,
  fake.closeDelimited,
  fake.resetMidStream,
  fake.resetAtOnce,
  fake.shortContentLength,
  fake.garbageSse,
  fake.crlfSse,
  fake.splitUtf8,
  () => fake.hugeLine(6 * 1024 * 1024),
  fake.midError,
  fake.usageTwice,
  fake.noUsage,
  fake.errorInside200,
  fake.extraBytesAfterBody,
  () => fake.slowDrip(1),
  () => fake.status(429, 'slow down', { 'retry-after': '1' }),
  () => fake.status(503, 'busy'),
  () => fake.body('application/json', '{"choices": ['),
]

/** What a client does with its call. */
type Fate = 'reads' | 'leaves at once' | 'leaves within' | 'is wrong' | 'has no key' | 'sends much'
const FATES: Fate[] = [
  ...['reads', 'reads', 'reads', 'leaves at once', 'leaves within'],
  ...['is wrong', 'has no key', 'sends much'],
] as Fate[]

async function main(): Promise<void> {
  const options = { minutes: { type: 'string' }, clients: { type: 'string' } } as const
  const { values } = parseArgs({ options })
  const minutes = readCount('--minutes', values.minutes ?? '30')
  const clients = readCount('--clients', values.clients ?? '24')
  await ensureGateway()
  const home = mkdtempSync(join(tmpdir(), 'gateway-soak-'))
  process.once('exit', () => rmSync(home, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => process.exit(1))
  const isGood = await soak(home, minutes, clients)
  print(isGood ? 'Within its limits.' : 'A limit is broken.')
  process.exit(isGood ? 0 : 1)
}

async function soak(home: string, minutes: number, clients: number): Promise<boolean> {
  const [faulty, sound] = await Promise.all([fake.startUpstream(), fake.startUpstream()])
  let turn = 0
  faulty.answer(() => {
    faulty.hits.length = 0
    return SCRIPTS[turn++ % SCRIPTS.length]?.() ?? []
  })
  sound.answer(({ json }) => {
    sound.hits.length = 0
    return (json as { stream?: boolean }).stream ? fake.stream() : fake.completion('Hello')
  })
  const key = await initGateway(renderConfig(faulty.url, sound.url), home)
  const gateway = await startGateway(key, home)
  const tally = new Map<string, number>()
  const until = performance.now() + minutes * 60_000
  const load = Array.from({ length: clients }, (_, i) => runClient(gateway, i, until, tally))
  const samples: Sample[] = []
  for (let minute = 1; minute <= minutes; minute++) {
    samples.push(await watchMinute(gateway.pid, minute, until - (minutes - minute) * 60_000))
    print(describeSample(samples.at(-1) as Sample))
  }
  await Promise.all(load)
  await Bun.sleep(REST_MS)
  print(`at rest: ${describeSample(takeSample(gateway.pid, minutes))}`)
  print([...tally].map(([what, times]) => `${times} × ${what}`).join(', '))
  await gateway.stop('SIGTERM')
  const books = Bun.spawnSync([getGatewayBinary(), 'doctor', '--data', join(home, 'data')])
  print(books.stdout.toString().trim().split('\n').at(-1) ?? '')
  await Promise.all([faulty.close(), sound.close()])
  return hasStayed(samples) && !tally.has('lost') && books.exitCode === 0
}

const renderConfig = (faulty: string, sound: string) => `providers:
  faulty: { protocol: openai-chat, base_url: "${faulty}", api_key: mock }
  sound: { protocol: openai-chat, base_url: "${sound}", api_key: mock }
routing: { choice: listed, failures: 0 }
timeouts: { first_byte_seconds: 2, first_byte_stream_seconds: 2, idle_seconds: 1, total_seconds: 20 }
models:
  - id: acme/small
    endpoints:
      - { provider: faulty, model: up, usd_per_million_tokens: { prompt: 0.1, completion: 0.1 } }
      - { provider: sound, model: up, usd_per_million_tokens: { prompt: 1, completion: 1 } }
`

/** Calls until the time is over, each call with another fate. */
async function runClient(
  { target: { url, key } }: Contender,
  number: number,
  until: number,
  tally: Map<string, number>,
): Promise<void> {
  for (let turn = number; performance.now() < until; turn++) {
    const fate = FATES[turn % FATES.length] ?? 'reads'
    const outcome = await callOnce(`${url}/api/v1/chat/completions`, key, fate, turn % 2 === 0)
    const what = fate.startsWith('leaves') ? fate : outcome
    tally.set(what, (tally.get(what) ?? 0) + 1)
  }
}

async function callOnce(url: string, key: string, fate: Fate, stream: boolean): Promise<string> {
  const client = new AbortController()
  const content = fate === 'sends much' ? 'x'.repeat(1_000_000) : 'Hi'
  const body = fate === 'is wrong' ? '{"messages": 1' : JSON.stringify(buildCall(content, stream))
  if (fate === 'leaves at once') setTimeout(() => client.abort(), 2)
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: fate === 'has no key' ? {} : { authorization: `Bearer ${key}` },
      body,
      signal: client.signal,
    })
    if (fate === 'leaves within') await response.body?.getReader().read()
    if (fate === 'leaves within') client.abort()
    else await response.text()
    return String(response.status)
  } catch {
    return 'lost'
  }
}

const buildCall = (content: string, stream: boolean) => ({
  ...{ model: 'acme/small', stream, max_tokens: 50 },
  messages: [{ role: 'user', content }],
})

/** Looks each second until the minute is over. Returns the medians: load comes and goes. */
async function watchMinute(pid: number, minute: number, until: number): Promise<Sample> {
  const looks: Sample[] = []
  while (performance.now() < until) {
    await Bun.sleep(Math.min(1_000, until - performance.now()))
    looks.push(takeSample(pid, minute))
  }
  const findMedian = (name: 'mb' | 'descriptors' | 'threads') =>
    computeSpread(looks.map(look => look[name])).median
  return {
    minute,
    mb: findMedian('mb'),
    descriptors: findMedian('descriptors'),
    threads: findMedian('threads'),
  }
}

function takeSample(pid: number, minute: number): Sample {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return {
    ...{ minute, mb: readResidentMb(pid) },
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    threads: Number(/^Threads:\s+(\d+)/m.exec(status)?.[1]),
  }
}

const describeSample = ({ minute, mb, descriptors, threads }: Sample): string =>
  `minute ${minute}: ${mb.toFixed(0)} MB, ${descriptors} descriptors, ${threads} threads`

/** Whether the end is at most a little above minute five, or above the middle of a shorter run. */
function hasStayed(samples: Sample[]): boolean {
  const before = samples[Math.min(4, Math.floor((samples.length - 1) / 2))]
  const end = samples.at(-1)
  if (!before || !end) return false
  return (['mb', 'descriptors', 'threads'] as const).every(
    name => end[name] <= before[name] * GROWTH + SLACK[name],
  )
}

function readCount(name: string, text: string): number {
  const count = Number(text)
  if (Number.isSafeInteger(count) && count >= 1 && count <= 10_000) return count
  process.stderr.write(`${name}: expected a whole number from 1 to 10000\n${USAGE}`)
  process.exit(2)
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

await main()
