import { writeSync } from 'node:fs'
import { describeProgram, VERSION } from '../base/version.ts'

/**
 * The program. What must begin at once does so before any command is loaded: the version, and the
 * parts that the benchmark starts beside itself.
 */
const [, , word, name, ...rest] = process.argv
if (word === '--version' && name === undefined) printAtOnce(VERSION)
else if (word === '--version' && name === '--json' && rest.length === 0)
  printAtOnce(JSON.stringify(describeProgram(), null, 2))
else if (word === 'bench-part' && rest.length === 0) await runBenchPart(name)
else await runCommandLine()

// The platform's stream takes as long to load as everything else here.
function printAtOnce(text: string): void {
  try {
    writeSync(1, `${text}\n`)
  } catch (thrown) {
    // A reader may close the pipe early.
    if ((thrown as NodeJS.ErrnoException).code !== 'EPIPE') throw thrown
  }
}

async function runBenchPart(name: string | undefined): Promise<void> {
  const { runPart } = await import('./bench/parts.ts')
  await runPart(name)
}

async function runCommandLine(): Promise<void> {
  const { prepareProcess } = await import('./program.ts')
  prepareProcess()
  const { run } = await import('./main.ts')
  await run(process.argv)
}
