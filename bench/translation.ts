import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Child, pinSelf } from '../src/cli/bench/children.ts'
import { createMachineReader, readVersions } from '../src/cli/bench/machine.ts'
import {
  CORES,
  ensureGateway,
  getGatewayBinary,
  initGateway,
  startGateway,
  startUpstream,
} from './contenders.ts'
import { listSharedProtocols, measureMatrix, type Plan } from './translation/matrix.ts'
import { measureReaders } from './translation/readers.ts'
import {
  listBrokenChunks,
  listBrokenCurves,
  MAX_PER_CHUNK,
  type MatrixReport,
  renderCurves,
  renderMatrix,
} from './translation/report.ts'

const USAGE = `bun run bench/translation.ts [--quick] [--json] [--rounds N] [--readers]

Measures what dist/gateway (or GATEWAY_BIN) spends on each chunk of a stream that it translates,
for every protocol of a provider and every dialect of a client. With --readers, measures in this
process whether a piece of a long stream costs more than one of a short one. Ends with 1 if a
limit is broken.
`

const FULL: Plan = { rounds: 3, streams: 200, gapMs: 2, seconds: 30, warmUpStreams: 40 }
const QUICK: Plan = { ...FULL, rounds: 1 }

// The benchmark always ends, and its children end with it.
const LONGEST_MS = 10 * 60_000

interface Options {
  json: boolean
  readers: boolean
  plan: Plan
}

await main()

async function main(): Promise<void> {
  const options = readOptions()
  if (!options) return
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => giveUp(`ended by ${signal}`))
  setTimeout(() => giveUp(`it took longer than ${LONGEST_MS / 60_000} minutes`), LONGEST_MS).unref()
  try {
    const broken = options.readers ? runReaders(options) : await runMatrix(options)
    process.exitCode = broken.length > 0 ? 1 : 0
  } catch (error) {
    giveUp(error instanceof Error ? error.message : String(error))
  }
}

function readOptions(): Options | undefined {
  const boolean = { type: 'boolean', default: false } as const
  const flags = {
    json: boolean,
    quick: boolean,
    readers: boolean,
    help: boolean,
    rounds: { type: 'string' },
  } as const
  try {
    const { values } = parseArgs({ options: flags })
    if (values.help) return void process.stdout.write(USAGE)
    const plan = values.quick ? QUICK : FULL
    return {
      json: values.json,
      readers: values.readers,
      plan: { ...plan, rounds: parseRounds(values.rounds, plan) },
    }
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}`)
    process.exitCode = 2
    return undefined
  }
}

function parseRounds(text: string | undefined, plan: Plan): number {
  const rounds = Number(text ?? plan.rounds)
  if (Number.isInteger(rounds) && rounds > 0 && rounds <= 10) return rounds
  throw new Error(`--rounds ${text}: expected a whole number from 1 to 10`)
}

function runReaders({ json }: Options): string[] {
  const courses = measureReaders(printProgress)
  process.stdout.write(json ? `${JSON.stringify(courses, null, 2)}\n` : renderCurves(courses))
  return listBrokenCurves(courses)
}

async function runMatrix({ plan, json }: Options): Promise<string[]> {
  const report = await measureReport(plan)
  process.stdout.write(json ? `${JSON.stringify(report, null, 2)}\n` : renderMatrix(report))
  return listBrokenChunks(report)
}

async function measureReport(plan: Plan): Promise<MatrixReport> {
  await ensureGateway()
  const home = mkdtempSync(join(tmpdir(), 'gateway-bench-'))
  process.once('exit', () => rmSync(home, { recursive: true, force: true }))
  pinSelf(CORES.tools)
  const upstream = await startUpstream(home, {}, 'translation/provider.ts')
  const gateway = await startGateway(await initGateway(renderConfig(upstream), home), home)
  const readMachine = createMachineReader()
  const found = await measureMatrix(gateway, plan, printProgress)
  const machine = readMachine()
  await Promise.all([upstream, gateway].map(child => child.stop('SIGKILL')))
  return { plan, versions: readVersions(getGatewayBinary()), machine, limit: MAX_PER_CHUNK, found }
}

/**
 * Renders a config with a provider for each protocol, each with two models: one to measure, one to
 * warm up.
 */
function renderConfig(upstream: Child): string {
  const names = listSharedProtocols()
  const renderProvider = (name: string) =>
    `  mock-${name}: { protocol: ${name}, base_url: "${upstream.url}/${name}", api_key: mock }`
  const renderModel = (
    name: string,
    pace: string,
    upstreamModel: string,
  ) => `  - id: ${pace}/${name}
    name: Bench Model
    context_length: 128000
    endpoints:
      - provider: mock-${name}
        model: ${upstreamModel}
        usd_per_million_tokens: { prompt: 0.15, completion: 0.60 }`
  const models = (name: string) => [
    renderModel(name, 'bench', 'paced'),
    renderModel(name, 'fast', 'fast'),
  ]
  return `providers:
${names.map(renderProvider).join('\n')}
models:
${names.flatMap(models).join('\n')}
`
}

function printProgress(line: string): void {
  process.stderr.write(`${line}\n`)
}

function giveUp(why: string): void {
  process.stderr.write(`bench: ${why}\n`)
  process.exit(1)
}
