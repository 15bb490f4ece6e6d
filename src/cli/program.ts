import { Command, CommanderError, Option } from 'commander'
import { toPrintable } from '../base/printable.ts'
import { VERSION } from '../base/version.ts'
import { HELP_LAYOUT } from './help.ts'
import { COMMON_HEADING } from './options.ts'
import { printFailure } from './output.ts'

/** Creates the program without its commands. */
export const createBareProgram = (): Command =>
  new Command('gateway')
    .description('One API in front of every model provider')
    .version(VERSION)
    .configureOutput({
      outputError: text =>
        process.stderr.write(`gateway: ${joinLines(text.replace(/^error: /, ''))}\n`),
    })
    .exitOverride()
    .configureHelp(HELP_LAYOUT)
    .addHelpOption(new Option('-h, --help', 'show this help').helpGroup(COMMON_HEADING))

// Commander repeats the input, and puts its suggestion on a line of its own.
const joinLines = (text: string) => toPrintable(text.trim().replaceAll('\n', ' '))

/**
 * Runs one command line of a program. The exit code is 0 for success, 1 for failure, 2 for wrong
 * usage, 3 for not found, 4 for a conflict, 5 for refused.
 */
export async function runProgram(program: Command, argv: string[]): Promise<void> {
  try {
    await inheritSettings(program).parseAsync(argv)
  } catch (thrown) {
    process.exitCode =
      thrown instanceof CommanderError ? toUsageExitCode(thrown) : printFailure(thrown)
  }
}

const toUsageExitCode = ({ exitCode }: CommanderError) => (exitCode === 0 ? 0 : 2)

// Commander passes its settings only to commands that it creates itself.
function inheritSettings(command: Command): Command {
  for (const child of command.commands) inheritSettings(child.copyInheritedSettings(command))
  return command
}

/** Prepares this process for a command line. */
export function prepareProcess(): void {
  // Files are readable by their owner only, even in a directory that others may read.
  process.umask(0o077)
  process.stdout.on('error', ignoreClosedPipe)
}

// A reader may close the pipe early (`| head`). That is not a failure.
function ignoreClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
}
