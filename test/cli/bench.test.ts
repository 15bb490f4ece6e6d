import { expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CASE_NAMES, createExtent } from '../../src/cli/bench/cases.ts'
import { createReport } from '../../src/cli/bench/report.ts'
import type { Sample } from '../../src/cli/bench/rounds.ts'
import { CONTENDERS } from '../../src/cli/bench/run.ts'
import { renderPage } from '../../src/cli/bench/text.ts'
import { waitUntil } from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { PROGRAM, runGateway } from '../support/server.ts'

/** Makes a directory for the temporary files of one run. */
const createTemporaryHome = (): string => mkdtempSync(join(tmpdir(), 'gateway-test-'))

/** Lists the processes that work in a directory or below it. */
const listWorkers = (home: string): string[] =>
  readdirSync('/proc').filter(pid => {
    try {
      return /^\d+$/.test(pid) && readlinkSync(`/proc/${pid}/cwd`).startsWith(home)
    } catch {
      return false
    }
  })

test('gateway bench measures every contender, loses no call, and leaves nothing behind', async () => {
  const TMPDIR = createTemporaryHome()
  const args = ['bench', '--seconds', '2', '--rate', '50', '--json']
  const cases = process.env.GATEWAY_TEST_LONG ? [] : ['--cases', 'calls,aborts']
  const { stdout, stderr } = await runGateway([...args, ...cases], { env: { TMPDIR } })
  expect(stderr).toBe('')
  const { data, skipped, ledger, start } = JSON.parse(stdout)
  const named = [...data, ...skipped].map(({ contender }) => contender)
  expect([...new Set(named)].toSorted()).toEqual([...CONTENDERS].toSorted())
  for (const { contender, calls } of data) expect([contender, calls > 0]).toEqual([contender, true])
  expect(ledger.map(({ contender, holds }: never) => [contender, holds])).toEqual([
    ['ours', true],
    ['ours-full', true],
  ])
  for (const { calls, rows } of ledger) expect(rows).toBeGreaterThanOrEqual(calls)
  // Ratios of one run: they hold their order on any machine, however busy.
  const [floor, ours, portkey] = ['floor', 'ours', 'portkey'].map(name => findCallCost(data, name))
  expect(ours).toBeGreaterThan(floor ?? Number.NaN)
  if (portkey !== undefined) expect(portkey).toBeGreaterThan(ours ?? Number.NaN)
  expect(start.version_ms).toBeGreaterThan(0)
  expect(readdirSync(TMPDIR)).toEqual([])
  expect(listWorkers(TMPDIR)).toEqual([])
  rmSync(TMPDIR, { recursive: true })
})

/** Finds the CPU of a contender's calls in closed loop; undefined where it is not installed. */
const findCallCost = (
  data: { case: string; contender: string; cpu_us: number }[],
  name: string,
): number | undefined => data.find(row => row.case === 'calls' && row.contender === name)?.cpu_us

test('a signal ends gateway bench with all that it started', async () => {
  const TMPDIR = createTemporaryHome()
  const child = Bun.spawn([...PROGRAM, 'bench', '--only', 'floor,ours'], {
    ...{ env: { ...process.env, TMPDIR }, stdout: 'ignore', stderr: 'pipe' },
  })
  await waitUntil(() => listWorkers(TMPDIR).length > 2)
  child.kill('SIGINT')
  expect(await new Response(child.stderr).text()).toBe(
    'gateway: the benchmark was ended by SIGINT\n',
  )
  expect(await child.exited).toBe(1)
  expect(readdirSync(TMPDIR)).toEqual([])
  expect(listWorkers(TMPDIR)).toEqual([])
  rmSync(TMPDIR, { recursive: true })
})

test.each([
  [['--seconds', '-1'], 'expected a whole number from 2 to 3600'],
  [['--seconds', '2.5'], 'expected a whole number from 2 to 3600'],
  [['--seconds', '1e9'], 'expected a whole number from 2 to 3600'],
  [['--seconds', 'soon'], 'expected a number'],
  [['--rate', '-5'], 'expected a whole number from 1 to 50000'],
  [['--rate', '0.5'], 'expected a whole number from 1 to 50000'],
  [['--rate', '1e300'], 'expected a whole number from 1 to 50000'],
  [['--only', 'ours,theirs'], `--only: expected ${CONTENDERS.join(', ')}, found theirs`],
  [['--only', 'ours,,floor'], `--only: expected ${CONTENDERS.join(', ')}, found nothing`],
  [['--cases', 'toString'], `--cases: expected ${CASE_NAMES.join(', ')}, found toString`],
  [['--markdown', '--json'], "'--markdown' cannot be used with option '--json'"],
])('gateway bench %j is refused before anything is started', async (args, message) => {
  const { code, stderr, stdout } = await runCommand(['bench', ...args])
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain(message)
})

test('only gateway bench starts its parts', async () => {
  const { code, stderr } = await runGateway(['bench-part', 'toString'])
  expect([code, stderr]).toEqual([
    2,
    'gateway: bench-part: only `gateway bench` starts its parts\n',
  ])
})

/** A sample of the case of calls. */
const createSample = (contender: string, round: number, cpu: number): Sample => ({
  ...{ case: 'calls', contender, round, cpu, calls: 100, units: 100, errors: 0 },
  ...{ callsPerSecond: 1_000, p50Ms: 1, p99Ms: 2, relayP99Ms: null, residentMb: 50 },
})

const FOUND = {
  start: { version_ms: 9, first_answer_ms: 150, idle_mb: null },
  ledger: [],
  skipped: [{ contender: 'nginx', why: 'not installed' }],
  extent: createExtent({ seconds: 60, rate: 10, contenders: ['floor'], cases: ['calls'] }),
  machine: { loadBefore: [0], loadAfter: [0], otherCores: 2, stolenCores: 0, seconds: 60 },
  versions: {
    ...{ gateway: '1', program: '/g', programMb: 1, bun: '1', system: 'Linux' },
    ...{ processor: 'p', cores: 2, pinned: true },
  },
}

/** Samples of rounds in which the gateway costs so many times the ten-line proxy. */
const createRounds = (costs: number[], ratios: number[]): Sample[] =>
  costs.flatMap((cost, round) => [
    createSample('floor', round, cost),
    createSample('ours-full', round, cost * (ratios[round] ?? 1)),
  ])

const CALL_GOAL = 'CPU of a call with everything on, by the ten-line proxy’s'

test('a ratio is the median of those of each round with quartiles, without the warm-up', () => {
  const { data, goals } = createReport(createRounds([9, 40, 41, 42, 40], [1, 2, 3, 4, 5]), FOUND)
  expect(
    data.map(({ contender, ratio, ratio_q1, ratio_q3, calls }) => [
      contender,
      [ratio_q1, ratio, ratio_q3],
      calls,
    ]),
  ).toEqual([
    ['floor', [1, 1, 1], 400],
    ['ours-full', [2.75, 3.5, 4.25], 400],
  ])
  const states = Object.fromEntries(goals.map(({ goal, state }) => [goal, state]))
  expect(states[CALL_GOAL]).toBe('missed')
  expect(states['`gateway --version`']).toBe('met')
  expect(states['resident memory, idle']).toBe('not measured')
})

test.each([
  ['differs by more than 15 % from quartile to quartile', [9, 40, 48, 56, 64], 'no verdict'],
  ['was measured in three rounds', [9, 40, 40, 40], 'no verdict'],
  ['is steady', [9, 40, 41, 42, 43], 'met'],
])('beside a ten-line proxy that %s, there is a right verdict', (_, costs, state) => {
  const { goals } = createReport(createRounds(costs, []), FOUND)
  expect(goals.find(({ goal }) => goal === CALL_GOAL)?.state).toBe(state as never)
})

test('the page tells misses, what is left out, and that the machine was not quiet', () => {
  const samples = CASE_NAMES.map(name => ({ ...createSample('floor', 1, 3), case: name }))
  const page = renderPage(createReport(samples, FOUND))
  expect(page).toContain('| the first answer after the start | 100 ms | 150 ms | missed |')
  expect(page).toContain('- nginx is left out: not installed')
  expect(page).toContain('- the machine was not quiet: others used 2.0 cores, so that')
  const long = page.split('\n').filter(line => line.length > 100 && !line.startsWith('|'))
  expect(long).toEqual([])
})

test.each([2, 60, 3_600])('a run of %d seconds plans no more than its time', seconds => {
  const all = { seconds, rate: 1, contenders: CONTENDERS, cases: CASE_NAMES }
  const { rounds, loopSeconds } = createExtent(all)
  const loops = 4 * CONTENDERS.length + 2
  expect(loopSeconds).toBeLessThanOrEqual(1)
  expect(loops * (rounds + 1) * loopSeconds).toBeLessThanOrEqual(Math.max(seconds / 2, 6.1))
})
