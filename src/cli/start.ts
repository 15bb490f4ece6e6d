import { writeSync } from 'node:fs'
import { VERSION } from '../core/kernel/version.ts'

/**
 * The program. What must begin at once does so before every command is loaded: the version, the
 * server, and what the benchmark starts beside itself.
 */
const [, , word, name, ...rest] = process.argv
if (word === '--version' && name === undefined) printVersion()
else if (word === 'bench-part' && rest.length === 0) await runBenchPart(name)
else await runCommandLine(word === 'serve')

// The platform's stream takes as long to load as everything else here.
function printVersion(): void {
  try {
    writeSync(1, `${VERSION}\n`)
  } catch (thrown) {
    // A reader may close the pipe early.
    if ((thrown as NodeJS.ErrnoException).code !== 'EPIPE') throw thrown
  }
}

async function runBenchPart(name: string | undefined): Promise<void> {
  const { runPart } = await import('./bench/parts.ts')
  await runPart(name)
}

async function runCommandLine(isServer: boolean): Promise<void> {
  const { prepareProcess, runProgram } = await import('./program.ts')
  prepareProcess()
  const program = isServer ? await createServer() : (await import('./main.ts')).createProgram()
  await runProgram(program, process.argv)
}

/** Creates the program with its command `serve` alone. */
async function createServer() {
  const { createBareProgram } = await import('./program.ts')
  const { createServeCommand } = await import('./commands/serve.ts')
  const { addExamples } = await import('./help.ts')
  const program = createBareProgram().addCommand(createServeCommand())
  addExamples(program)
  return program
}
