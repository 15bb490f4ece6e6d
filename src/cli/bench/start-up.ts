import type { Child } from './children.ts'
import { getText } from './connection.ts'
import { type Home, startGateway } from './contenders.ts'
import { readResidentMb } from './procfs.ts'
import type { StartUp } from './report.ts'
import { computeSpread } from './statistics.ts'

/** How often each is measured, in a run of full length and in a shorter one. */
const TIMES = { full: { starts: 3, versions: 9 }, short: { starts: 1, versions: 3 } }
/** What a gateway does after its start has been done by then. */
const REST_MS = 500

/** Keeps a child, to end it where the run is ended. */
type Keep = (child: Pick<Child, 'stop'>) => unknown

/** Measures how a gateway starts on a data directory that has been used before. */
export async function measureStartUp(
  home: Home,
  { isShort, keep }: { isShort: boolean; keep: Keep },
): Promise<StartUp> {
  const times = isShort ? TIMES.short : TIMES.full
  const answers = []
  const memory = []
  for (let start = 0; start < times.starts; start++) {
    const { answerMs, idleMb } = await measureStart(home, keep)
    answers.push(answerMs)
    memory.push(idleMb)
  }
  const [versionMs, idleMb] = [
    computeMedian(await measureVersions(home, times.versions)),
    computeMedian(memory),
  ]
  return {
    version_ms: versionMs,
    first_answer_ms: computeMedian(answers),
    idle_mb: idleMb > 0 ? idleMb : null,
  }
}

async function measureStart(home: Home, keep: Keep) {
  const began = performance.now()
  const gateway = await startGateway(home, 'start')
  keep(gateway)
  await getText(gateway.url, '/health')
  const answerMs = performance.now() - began
  await Bun.sleep(REST_MS)
  const idleMb = readResidentMb(gateway.pid)
  await gateway.stop('SIGTERM')
  return { answerMs, idleMb }
}

async function measureVersions({ program }: Home, times: number): Promise<number[]> {
  const waits = []
  for (let run = 0; run < times; run++) {
    const began = performance.now()
    await Bun.spawn([...program, '--version'], { stdio: ['ignore', 'ignore', 'ignore'] }).exited
    waits.push(performance.now() - began)
  }
  return waits
}

const computeMedian = (values: number[]) => Number(computeSpread(values).median.toFixed(1))
