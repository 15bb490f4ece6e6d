import { Command, InvalidArgumentError, Option } from 'commander'
import { invalid } from '../../base/errors.ts'
import type { Report } from '../bench/report.ts'
import { addShapeOptions, parseNumber } from '../options.ts'
import { print, printNote, printResult, printTable, type Shape, write } from '../output.ts'

interface BenchFlags extends Shape {
  seconds: number
  rate: number
  only?: string
  cases?: string
  markdown?: boolean
}

/** In seconds. */
const SHORTEST = 2
const LONGEST = 3_600
/** Calls in a second. */
const HIGHEST_RATE = 50_000
/** How much longer than its time a run may take, as a factor and in milliseconds. */
const GRACE = { factor: 3, ms: 120_000 }

/**
 * `gateway bench`: compares the gateway with other proxies on this machine, all on loopback and in a
 * temporary directory. Touches no data directory. Exits with 1 if a gateway's call failed, or its
 * ledger lacks one.
 */
export const createBenchCommand = () =>
  addShapeOptions(
    new Command('bench').description('compare the gateway with other proxies on this machine'),
    'print everything as JSON',
  )
    .option('--seconds <n>', 'how long it measures, about', parseSeconds, 600)
    .option('--rate <n>', 'calls a second in the case of a steady rate', parseRate, 2_000)
    .option(
      '--only <names>',
      'these contenders only: direct, sockets, nginx, floor, portkey, ours, ours-full',
    )
    .option(
      '--cases <names>',
      'these loads only: calls, details, steady, prompts, translation, streams, ' +
        'translated-streams, aborts',
    )
    .addOption(
      new Option('--markdown', 'print it as the page docs/performance.md').conflicts([
        'json',
        'field',
      ]),
    )
    .action(bench)

const parseSeconds = (text: string) => parseWhole(text, SHORTEST, LONGEST)
const parseRate = (text: string) => parseWhole(text, 1, HIGHEST_RATE)

function parseWhole(text: string, least: number, most: number): number {
  const value = parseNumber(text)
  if (Number.isInteger(value) && value >= least && value <= most) return value
  throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}`)
}

async function bench({ seconds, rate, only, cases, ...shape }: BenchFlags): Promise<void> {
  const { CONTENDERS, runBench } = await import('../bench/run.ts')
  const { CASE_NAMES } = await import('../bench/cases.ts')
  const options = {
    ...{ seconds, rate },
    contenders: pickNames('--only', only, CONTENDERS),
    cases: pickNames('--cases', cases, CASE_NAMES),
  }
  const { signal, release } = createStop(seconds)
  const report = await runBench(options, signal, noteProgress).finally(release)
  if (hasFailed(report)) process.exitCode = 1
  if (!shape.markdown) return printResult(shape, report, printReport)
  const { renderPage } = await import('../bench/text.ts')
  await write(renderPage(report))
}

/** Reads names with commas between, in the order of those known. Throws 400 for another. */
function pickNames<Name extends string>(
  flag: string,
  text: string | undefined,
  known: readonly Name[],
): readonly Name[] {
  if (text === undefined) return known
  const names = text.split(',').map(name => name.trim())
  const unknown = names.find(name => !known.includes(name as Name))
  if (unknown !== undefined)
    throw invalid(`${flag}: expected ${known.join(', ')}, found ${unknown || 'nothing'}`)
  return known.filter(name => names.includes(name))
}

// A terminal shows how far it is; a script gets the answer alone.
const noteProgress = (line: string) => {
  if (process.stderr.isTTY) printNote(line)
}

/** Stops the run at a signal, or when it takes far too long. */
function createStop(seconds: number): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController()
  const stop = (why: string) => controller.abort(new Error(`the benchmark was ended ${why}`))
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const listeners = names.map(name => [name, () => stop(`by ${name}`)] as const)
  for (const [name, listener] of listeners) process.once(name, listener)
  const longest = seconds * 1000 * GRACE.factor + GRACE.ms
  const patience = setTimeout(() => stop('since it took too long'), longest)
  const release = () => {
    clearTimeout(patience)
    for (const [name, listener] of listeners) process.off(name, listener)
  }
  return { signal: controller.signal, release }
}

// Calls at a steady rate that a slow machine has not answered in time are no failures.
const hasFailed = ({ data, ledger }: Report): boolean =>
  ledger.some(({ holds }) => !holds) ||
  data.some(row => row.errors > 0 && row.contender.startsWith('ours') && row.case !== 'steady')

async function printReport(report: Report): Promise<void> {
  const text = await import('../bench/text.ts')
  for (const line of text.describeMachine(report)) print(line)
  print('')
  printTable(text.HEADINGS, report.data.map(text.listCells))
  print('')
  for (const line of [...text.describeCases(report), ...text.listRemarks(report)]) print(line)
  print('')
  printTable(text.GOAL_HEADINGS, report.goals.map(text.listGoalCells))
}
