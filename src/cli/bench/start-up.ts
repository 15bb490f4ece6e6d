import type { Child } from './children.ts'
import { getText } from './connection.ts'
import { type Home, startGateway } from './contenders.ts'
import { readResidentMb } from './procfs.ts'
import type { StartUp } from './report.ts'
import { computeSpread } from './statistics.ts'

const VERSIONS = 9
const STARTS = 3
/** What a gateway does after its start has been done by then. */
const REST_MS = 500

/** Measures how a gateway starts on a data directory that has been used before. */
export async function measureStartUp(
  home: Home,
  keep: (child: Pick<Child, 'stop'>) => void,
): Promise<StartUp> {
  const answers = []
  const memory = []
  for (let start = 0; start < STARTS; start++) {
    const { answerMs, idleMb } = await measureStart(home, keep)
    answers.push(answerMs)
    memory.push(idleMb)
  }
  const [versionMs, idleMb] = [computeMedian(await measureVersions(home)), computeMedian(memory)]
  return {
    version_ms: versionMs,
    first_answer_ms: computeMedian(answers),
    idle_mb: idleMb > 0 ? idleMb : null,
  }
}

async function measureStart(home: Home, keep: (child: Pick<Child, 'stop'>) => void) {
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

async function measureVersions({ program }: Home): Promise<number[]> {
  const waits = []
  for (let run = 0; run < VERSIONS; run++) {
    const began = performance.now()
    await Bun.spawn([...program, '--version'], { stdio: ['ignore', 'ignore', 'ignore'] }).exited
    waits.push(performance.now() - began)
  }
  return waits
}

const computeMedian = (values: number[]) => Number(computeSpread(values).median.toFixed(1))
