/**
 * Reports what the official clients can do here: `bun run clients`. Runs their tests through the
 * checker of the public contract, and lists the methods of OpenRouter's client that were answered,
 * those that cannot exist here with the reason, what is missing, and every answer that is not as
 * the contract has it. Then runs them with the previous major of each client. Ends with 1 if anything
 * is missing or wrong. Needs GATEWAY_SHARED or /shared.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { contract } from '../test/support/contract.ts'
import type { WireReport } from '../test/support/wirecheck.ts'
import { listMethods, WITHOUT_DOOR } from './clients/methods.ts'
import { PREVIOUS, reportPrevious } from './clients/previous.ts'

const ROOT = resolve(import.meta.dir, '..')

const directory = mkdtempSync(join(tmpdir(), 'gateway-clients-'))
try {
  process.exitCode = await main()
} finally {
  rmSync(directory, { recursive: true })
}

async function main(): Promise<number> {
  if (!contract) throw new Error('expected the public contract: see GATEWAY_SHARED')
  const files = { methods: join(directory, 'methods'), reports: join(directory, 'reports') }
  await Promise.all(Object.values(files).map(path => Bun.write(path, '')))
  const code = await runTests(files)
  const isMethodsFine = reportMethods(new Set(await readLines(files.methods)))
  const reports = (await readLines(files.reports)).map(line => JSON.parse(line) as WireReport)
  const isContractFine = reportContract(reports)
  print(code === 0 ? 'All tests of clients passed' : `Tests of clients failed: ${code}`)
  const isPreviousFine = reportPrevious(await runPrevious())
  return code === 0 && isMethodsFine && isContractFine && isPreviousFine ? 0 : 1
}

/** Runs the tests with the previous majors, and returns what they print. */
async function runPrevious(): Promise<string> {
  const args = ['test', '--timeout', '60000', '--tsconfig-override', PREVIOUS, 'test/clients']
  const log = join(directory, 'previous')
  const child = Bun.spawn([process.execPath, ...args], {
    ...{ cwd: ROOT, stdin: 'ignore', stdout: 'ignore', stderr: Bun.file(log) },
  })
  await child.exited
  return Bun.file(log).text()
}

/** Runs the tests, and shows what they print only if one of them fails. */
async function runTests({ methods, reports }: { methods: string; reports: string }) {
  const preload = join(ROOT, 'scripts/clients/record.ts')
  const args = ['test', '--timeout', '60000', '--preload', preload, 'test/clients']
  const env = { ...process.env, GATEWAY_METHODS: methods, GATEWAY_WIRE_REPORTS: reports }
  const log = join(directory, 'log')
  const child = Bun.spawn([process.execPath, ...args], {
    ...{ cwd: ROOT, env, stdin: 'ignore', stdout: 'ignore', stderr: Bun.file(log) },
  })
  const code = await child.exited
  if (code !== 0) process.stderr.write(await Bun.file(log).text())
  return code
}

async function readLines(path: string): Promise<string[]> {
  return (await Bun.file(path).text()).split('\n').filter(line => line !== '')
}

function reportMethods(answered: Set<string>): boolean {
  const names = listMethods().map(({ name }) => name)
  const missing = names.filter(name => !answered.has(name) && !(name in WITHOUT_DOOR))
  print(`Methods of OpenRouter’s client: ${names.length}`)
  print(`  answered: ${names.filter(name => answered.has(name)).length}`)
  const byReason = Map.groupBy(
    names.filter(name => name in WITHOUT_DOOR && !answered.has(name)),
    name => WITHOUT_DOOR[name] ?? '',
  )
  for (const [reason, some] of byReason)
    print(`  without a door here: ${some.length}. ${reason}\n    ${some.join(', ')}`)
  print(`  missing: ${missing.length}${missing.map(name => `\n    ${name}`).join('')}`)
  return missing.length === 0
}

function reportContract(reports: WireReport[]): boolean {
  const operations = Object.values(contract?.paths ?? {}).flatMap(path =>
    Object.values(path as Record<string, { operationId?: string }>).flatMap(
      ({ operationId }) => operationId ?? [],
    ),
  )
  const seen = reports.flatMap(report => Object.entries(report.seen))
  const ids = new Set(
    seen.flatMap(([name]) => (/ (404|405)$/.test(name) ? [] : (name.split(' ')[0] ?? []))),
  )
  const missing = operations.filter(id => !ids.has(id))
  const violations = reports.flatMap(report => report.violations)
  const answers = seen.reduce((sum, [, count]) => sum + count, 0)
  print(`Operations of the contract: ${operations.length}`)
  print(`  answered through the checker: ${operations.length - missing.length}`)
  print(`  missing: ${missing.length}${missing.map(name => `\n    ${name}`).join('')}`)
  print(`Answers checked: ${answers}`)
  const lines = violations.map(({ op, status, what }) => `\n    ${op} ${status}: ${what}`)
  print(`  violations: ${violations.length}${lines.join('')}`)
  return missing.length === 0 && violations.length === 0
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
