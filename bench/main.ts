import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Child, pinSelf } from './children.ts'
import {
  CORES,
  type Contender,
  ensureGateway,
  initGateway,
  type Rival,
  renderSingleModelConfig,
  startFloor,
  startGateway,
  startUpstream,
} from './contenders.ts'
import { checkLedger, type Ledger } from './ledger.ts'
import { createMachineReader, type Machine, readVersions } from './machine.ts'
import { judge, listBrokenLimits, type Report, renderReport } from './report.ts'
import { measure, type Plan, type Samples, toSubject } from './rounds.ts'

const USAGE = `bun run bench/main.ts [--quick] [--json] [--rounds N] [--contender ours|floor2]

Compares dist/gateway (or GATEWAY_BIN) with the ten-line proxy of bench/floor.ts. Ends with 1
if a limit is broken.
`

const FULL: Plan = {
  rounds: 5,
  warmUpCalls: 4_000,
  cpu: { connections: 10, calls: 15_000, seconds: 10 },
  ceiling: { connections: 32, calls: 40_000, seconds: 2 },
  streams: [20, 200],
  streamGapMs: 2,
  streamSeconds: 15,
}

const QUICK: Plan = {
  ...FULL,
  rounds: 2,
  warmUpCalls: 2_000,
  cpu: { ...FULL.cpu, calls: 5_000 },
  ceiling: { ...FULL.ceiling, seconds: 1 },
}

// The benchmark always ends, and its children end with it.
const LONGEST_MS = 6 * 60_000

type Options = { json: boolean; plan: Plan; quick: boolean; rival: Rival }

await main()

async function main(): Promise<void> {
  const options = readOptions()
  if (!options) return
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => giveUp(`ended by ${signal}`))
  setTimeout(() => giveUp(`it took longer than ${LONGEST_MS / 60_000} minutes`), LONGEST_MS).unref()
  try {
    const report = await runBench(options)
    process.stdout.write(
      options.json ? `${JSON.stringify(report, null, 2)}\n` : renderReport(report),
    )
    process.exitCode = listBrokenLimits(report).length > 0 ? 1 : 0
  } catch (error) {
    giveUp(error instanceof Error ? error.message : String(error))
  }
}

function readOptions(): Options | undefined {
  const boolean = { type: 'boolean', default: false } as const
  const flags = {
    json: boolean,
    quick: boolean,
    help: boolean,
    rounds: { type: 'string' },
    contender: { type: 'string' },
  } as const
  try {
    const { values } = parseArgs({ options: flags })
    if (values.help) return void process.stdout.write(USAGE)
    const plan = values.quick ? QUICK : FULL
    return {
      json: values.json,
      quick: values.quick,
      rival: parseRival(values.contender),
      plan: { ...plan, rounds: parseRounds(values.rounds, plan) },
    }
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}`)
    process.exitCode = 2
    return undefined
  }
}

function parseRival(name = 'ours'): Rival {
  if (name === 'ours' || name === 'floor2') return name
  throw new Error(`--contender ${name}: expected ours or floor2`)
}

function parseRounds(text: string | undefined, plan: Plan): number {
  const rounds = Number(text ?? plan.rounds)
  if (Number.isInteger(rounds) && rounds > 0 && rounds <= 50) return rounds
  throw new Error(`--rounds ${text}: expected a whole number from 1 to 50`)
}

async function runBench({ plan, quick, rival }: Options): Promise<Report> {
  if (rival === 'ours') await ensureGateway()
  const home = mkdtempSync(join(tmpdir(), 'gateway-bench-'))
  process.once('exit', () => rmSync(home, { recursive: true, force: true }))
  pinSelf(CORES.tools)
  const upstream = await startUpstream(home, { CHUNKS: quick ? '25' : '100', INTERVAL_MS: '20' })
  const floor = await startFloor('floor', upstream, home)
  const start = await createRivalStarter(rival, upstream, join(home, rival))
  const contender = await start()
  const found = await runContest({ upstream, floor, rival: contender }, plan, start)
  await Promise.all([upstream, floor, contender].map(child => child.stop('SIGKILL')))
  return {
    plan,
    rival,
    versions: readVersions(rival),
    ...found,
    verdict: judge(found.samples, rival),
  }
}

async function createRivalStarter(
  rival: Rival,
  upstream: Child,
  home: string,
): Promise<() => Promise<Contender>> {
  if (rival !== 'ours') return () => startFloor(rival, upstream, home)
  const key = await initGateway(renderSingleModelConfig(upstream), home)
  return () => startGateway(key, home)
}

type ContestResult = { machine: Machine; samples: Samples[]; ledger?: Ledger }

async function runContest(
  { upstream, floor, rival }: { upstream: Child; floor: Contender; rival: Contender },
  plan: Plan,
  restart: () => Promise<Contender>,
): Promise<ContestResult> {
  const readMachine = createMachineReader()
  const direct = { name: 'direct', target: { url: upstream.url, key: 'none' } }
  const samples = await measure([direct, toSubject(floor), toSubject(rival)], plan, line =>
    process.stderr.write(`${line}\n`),
  )
  const found = { machine: readMachine(), samples }
  const ours = samples.find(({ name }) => name === 'ours')
  return ours ? { ...found, ledger: await checkLedger(rival, restart, ours) } : found
}

function giveUp(why: string): void {
  process.stderr.write(`bench: ${why}\n`)
  process.exit(1)
}
