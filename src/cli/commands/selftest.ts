import { Command } from 'commander'
import { addShapeOptions } from '../options.ts'
import { print, printResult, printTable, type Shape } from '../output.ts'

/** What came of one promise. */
interface Outcome {
  id: string
  promise: string
  ok: boolean
  found: string
}

/**
 * `gateway selftest`: tries each promise on this machine, with a gateway and a provider of its own
 * in a temporary directory. Touches no data directory. Exits with 1 if one does not hold.
 */
export const createSelftestCommand = () =>
  addShapeOptions(
    new Command('selftest').description(
      'try every promise of reliability on this machine, in a few seconds',
    ),
    'print the answer as JSON',
  ).action(async (shape: Shape) => {
    const before = performance.now()
    const data = await runAll()
    const seconds = (performance.now() - before) / 1000
    if (data.some(({ ok }) => !ok)) process.exitCode = 1
    await printResult(shape, { data, seconds }, printOutcomes)
  })

function printOutcomes({ data, seconds }: { data: Outcome[]; seconds: number }): void {
  printTable(
    ['ID', 'PROMISE', 'STATE', 'FOUND'],
    data.map(({ id, promise, ok, found }) => [id, promise, ok ? 'holds' : 'BROKEN', found]),
  )
  print(`${data.filter(({ ok }) => ok).length} of ${data.length} hold, ${seconds.toFixed(1)} s`)
}

async function runAll(): Promise<Outcome[]> {
  const { Trial } = await import('../selftest/trial.ts')
  const { PROMISES } = await import('../selftest/promises.ts')
  const trial = new Trial()
  const outcomes: Outcome[] = []
  try {
    await trial.open()
    for (const { id, promise, run } of PROMISES)
      outcomes.push({ id, promise, ...(await runOne(() => run(trial))) })
  } finally {
    await trial.close()
  }
  return outcomes.toSorted((a, b) => Number(a.id.slice(1)) - Number(b.id.slice(1)))
}

async function runOne(run: () => Promise<string>): Promise<Pick<Outcome, 'ok' | 'found'>> {
  try {
    return { ok: true, found: await run() }
  } catch (thrown) {
    return { ok: false, found: thrown instanceof Error ? thrown.message : String(thrown) }
  }
}
