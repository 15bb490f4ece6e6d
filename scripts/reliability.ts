/**
 * Writes docs/reliability.md: `bun run reliability`. It runs the tests whose names have the number
 * of a scenario, against dist/gateway, and then `gateway selftest`, and writes down what came of
 * both. `--only-map` prints which test tries which scenario, and runs nothing. `--again` runs only
 * the tests of scenarios that the page does not say have passed, and keeps the other results.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ABSENT, COMMANDS, SCENARIOS } from './scenarios.data.ts'

const ROOT = join(import.meta.dir, '..')
const PAGE = join(ROOT, 'docs/reliability.md')
const BINARY = 'dist/gateway'

/** The number of a scenario in the name of a test. */
const NUMBER = /\b[UCASDXOR]-\d\d\b/g
/** The name of a test, or of a group of them, as it stands in the source. */
const TITLE =
  /^\s*(?:(?:test|describe|onLinux)(?:\.\w+)?(?:\([^\n]*?\))?\(\s*|\]\)\()?[`'"](.*?)[`'"],/gm
/** The name of a row in a table of tests: the first text of a list, which begins with a number. */
const ROW = /\[\s*[`'"]([UCASDXOR]-\d\d\b.*?)[`'"],/g

/** Lists which files try each scenario. */
export function mapScenarios(files: Map<string, string>): Map<string, string[]> {
  const map = new Map<string, string[]>()
  for (const [path, text] of files)
    for (const [, title = ''] of [...text.matchAll(TITLE), ...text.matchAll(ROW)])
      for (const [number] of title.matchAll(NUMBER))
        if (number in SCENARIOS) map.set(number, [...new Set([...(map.get(number) ?? []), path])])
  return map
}

/** Reads every file of tests but those of scripts, by its path. */
export const readTests = (): Map<string, string> =>
  new Map(
    [...new Bun.Glob('test/**/*.test.{ts,tsx}').scanSync(ROOT)]
      .filter(path => !path.startsWith('test/scripts/'))
      .toSorted()
      .map(path => [path, readFileSync(join(ROOT, path), 'utf8')]),
  )

/** How many tests of a scenario have passed, failed and been passed over. */
interface Result {
  passed: number
  failed: number
  skipped: number
}

/** Runs the tests with numbers, and returns what came of each scenario. */
function runTests(paths: string[]): Map<string, Result> {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-reliability-'))
  const report = join(directory, 'report.xml')
  Bun.spawnSync(
    [
      ...['bun', 'test', '--timeout', '120000', '-t', '\\b[UCASDXOR]-\\d\\d\\b'],
      ...['--reporter=junit', `--reporter-outfile=${report}`],
      ...paths,
    ],
    {
      cwd: ROOT,
      env: { ...process.env, GATEWAY_TEST_BINARY: BINARY },
      stdio: ['ignore', 'inherit', 'inherit'],
    },
  )
  const results = countResults(readFileSync(report, 'utf8'))
  rmSync(directory, { recursive: true })
  return results
}

/** Counts the results in a report of JUnit’s form, by scenario. */
export function countResults(report: string): Map<string, Result> {
  const results = new Map<string, Result>()
  for (const [, names = '', rest = ''] of report.matchAll(
    /<testcase ([^>]*?)(\/>|>[\s\S]*?<\/testcase>)/g,
  )) {
    const state = rest.includes('<failure')
      ? 'failed'
      : rest.includes('<skipped')
        ? 'skipped'
        : 'passed'
    for (const number of new Set(names.match(NUMBER))) {
      const result = results.get(number) ?? { passed: 0, failed: 0, skipped: 0 }
      result[state] += 1
      results.set(number, result)
    }
  }
  return results
}

/** Reads the results that the page has, of scenarios that have passed. */
const readPassed = (page: string): Map<string, Result> =>
  new Map(
    Array.from(
      page.matchAll(/^\| ([A-Z]-\d\d) \|.*\| (\d+) passed \|$/gm),
      ([, number, passed]) => [number ?? '', { passed: Number(passed), failed: 0, skipped: 0 }],
    ),
  )

/** Runs the tests of all scenarios but those that have passed. */
function runAllBut(map: Map<string, string[]>, passed: Map<string, Result>): Map<string, Result> {
  const left = [...map].filter(([number]) => !passed.has(number)).flatMap(([, paths]) => paths)
  return new Map(left.length === 0 ? passed : [...runTests([...new Set(left)]), ...passed])
}

const describeResult = (result: Result | undefined): string => {
  if (!result || result.passed + result.failed === 0) return 'not run here'
  return result.failed > 0 ? `${result.failed} failed` : `${result.passed} passed`
}

interface Outcome {
  id: string
  promise: string
  ok: boolean
  found: string
}

function runSelftest(): { data: Outcome[]; seconds: number } {
  const { stdout } = Bun.spawnSync([join(ROOT, BINARY), 'selftest', '--json'])
  return JSON.parse(stdout.toString())
}

const escapeCell = (text: string): string => text.replaceAll('|', '\\|')

/** Describes what tries a scenario and what came of it, or why nothing does. */
export function describeTrial(
  number: string,
  map: Map<string, string[]>,
  results: Map<string, Result>,
): string {
  const paths = map.get(number)?.map(path => `\`${path.replace(/^test\//, '')}\``)
  if (paths) return `${paths.join(', ')} | ${describeResult(results.get(number))}`
  if (COMMANDS[number] !== undefined) return `\`${COMMANDS[number]}\` | by hand`
  return ABSENT[number] === undefined ? 'none | not tried' : `none | ${ABSENT[number]}`
}

function renderPage(map: Map<string, string[]>, results: Map<string, Result>): string {
  const { data, seconds } = runSelftest()
  const numbers = Object.keys(SCENARIOS)
  const promises = data.map(
    ({ id, promise, ok, found }) =>
      `| ${id} | ${promise} | ${ok ? 'holds' : 'broken'} | ${escapeCell(found)} |`,
  )
  const rows = numbers.map(
    number =>
      `| ${number} | ${escapeCell(SCENARIOS[number] ?? '')} | ${describeTrial(number, map, results)} |`,
  )
  return `# Reliability

Written by \`bun run reliability\`, which runs what it names. Do not edit it.

## The fifteen promises

\`gateway selftest\` tries each on your own machine, with a gateway and a provider of its own in a
temporary directory. It touches no data directory, and ends with 1 if a promise does not hold. On the
machine that wrote this page it took ${seconds.toFixed(1)} s:

| | Promise | State | Found |
| --- | --- | --- | --- |
${promises.join('\n')}

What it cannot show in seconds, the scenarios below do, and \`npm run test:long\` with more rounds.

## Scenarios

${map.size} of ${numbers.length} have a test with their number in its name. The result is that of the built binary. Tests of
other folders try parts of it in their own process.

| | Fault or abuse | Test | Result |
| --- | --- | --- | --- |
${rows.join('\n')}
`
}

if (import.meta.main) {
  const map = mapScenarios(readTests())
  if (process.argv.includes('--only-map'))
    for (const number of Object.keys(SCENARIOS))
      process.stdout.write(`${number} ${(map.get(number) ?? ['no test']).join(', ')}\n`)
  else {
    const isAgain = process.argv.includes('--again')
    const passed = isAgain ? readPassed(readFileSync(PAGE, 'utf8')) : new Map()
    writeFileSync(PAGE, renderPage(map, runAllBut(map, passed)))
  }
}
