import { Command, CommanderError, Option } from 'commander'
import { toPrintable } from '../core/kernel/printable.ts'
import { VERSION } from '../core/kernel/version.ts'
import { createAuditCommand } from './commands/audit.ts'
import { createBackupCommand, createRestoreCommand } from './commands/backup.ts'
import { createBatchesCommand } from './commands/batches.ts'
import { createBenchCommand } from './commands/bench.ts'
import { createBudgetsCommand } from './commands/budgets.ts'
import { createByokCommand } from './commands/byok.ts'
import { createCompletionsCommand } from './commands/completions.ts'
import { createConfigCommand } from './commands/config.ts'
import { createContainersCommand } from './commands/containers.ts'
import { createCreditsCommand } from './commands/credits.ts'
import { createDatasetsCommand } from './commands/datasets.ts'
import { createDestinationsCommand } from './commands/destinations.ts'
import { createDoctorCommand } from './commands/doctor.ts'
import { createExplainCommand } from './commands/explain.ts'
import { createExportCommand } from './commands/export.ts'
import { createFilesCommand } from './commands/files.ts'
import { createGenerationsCommand } from './commands/generations.ts'
import { createGuardrailsCommand } from './commands/guardrails.ts'
import { createImportCommand } from './commands/import.ts'
import { createInitCommand } from './commands/init.ts'
import { createKeysCommand } from './commands/keys.ts'
import { createLedgerCommand } from './commands/ledger.ts'
import { createLogsCommand } from './commands/logs.ts'
import { createManCommand } from './commands/man.ts'
import { createMembersCommand } from './commands/members.ts'
import { createModelsCommand } from './commands/models.ts'
import { createPresetsCommand } from './commands/presets.ts'
import { createProvidersCommand } from './commands/providers.ts'
import { createRollupsCommand } from './commands/rollups.ts'
import { createScimCommand } from './commands/scim.ts'
import { createSelftestCommand } from './commands/selftest.ts'
import { createServeCommand } from './commands/serve.ts'
import { createSetupCommand } from './commands/setup.ts'
import { createStatusCommand } from './commands/status.ts'
import { createToolsCommand } from './commands/tools.ts'
import { createTryCommand } from './commands/try.ts'
import { createTuiCommand } from './commands/tui.ts'
import { createUsageCommand } from './commands/usage.ts'
import { createVersionCommand } from './commands/version.ts'
import { createVideosCommand } from './commands/videos.ts'
import { createWatchCommand } from './commands/watch.ts'
import { createWorkspacesCommand } from './commands/workspaces.ts'
import { addExamples, createHelpCommand, HELP_LAYOUT } from './help.ts'
import { COMMON_HEADING } from './options.ts'
import { printFailure } from './output.ts'

/**
 * Builds the program: `gateway NOUN VERB`. Every command opens what it needs when it runs, so
 * `--help` opens nothing.
 */
export function createProgram(): Command {
  const program = new Command('gateway')
    .description('One API in front of every model provider')
    .version(VERSION)
    .configureOutput({
      outputError: text =>
        process.stderr.write(`gateway: ${joinLines(text.replace(/^error: /, ''))}\n`),
    })
    .exitOverride()
    .configureHelp(HELP_LAYOUT)
    .addHelpOption(new Option('-h, --help', 'show this help').helpGroup(COMMON_HEADING))
    .addCommand(createServeCommand())
    .addCommand(createSetupCommand())
    .addCommand(createInitCommand())
    .addCommand(createKeysCommand())
    .addCommand(createWorkspacesCommand())
    .addCommand(createMembersCommand())
    .addCommand(createBudgetsCommand())
    .addCommand(createBatchesCommand())
    .addCommand(createPresetsCommand())
    .addCommand(createByokCommand())
    .addCommand(createFilesCommand())
    .addCommand(createDestinationsCommand())
    .addCommand(createContainersCommand())
    .addCommand(createVideosCommand())
    .addCommand(createCreditsCommand())
    .addCommand(createAuditCommand())
    .addCommand(createLedgerCommand())
    .addCommand(createGuardrailsCommand())
    .addCommand(createScimCommand())
    .addCommand(createModelsCommand())
    .addCommand(createProvidersCommand())
    .addCommand(createToolsCommand())
    .addCommand(createGenerationsCommand())
    .addCommand(createLogsCommand())
    .addCommand(createTryCommand())
    .addCommand(createExplainCommand())
    .addCommand(createConfigCommand())
    .addCommand(createDoctorCommand())
    .addCommand(createSelftestCommand())
    .addCommand(createBenchCommand())
    .addCommand(createBackupCommand())
    .addCommand(createRestoreCommand())
    .addCommand(createUsageCommand())
    .addCommand(createDatasetsCommand())
    .addCommand(createExportCommand())
    .addCommand(createImportCommand())
    .addCommand(createRollupsCommand())
    .addCommand(createStatusCommand())
    .addCommand(createWatchCommand())
    .addCommand(createTuiCommand())
    .addCommand(createCompletionsCommand())
    .addCommand(createManCommand())
    .addCommand(createVersionCommand())
    .addCommand(createHelpCommand())
  addExamples(program)
  return program
}

// Commander repeats the input, and puts its suggestion on a line of its own.
const joinLines = (text: string) => toPrintable(text.trim().replaceAll('\n', ' '))

/**
 * Runs one command line. The exit code is 0 for success, 1 for failure, 2 for wrong usage, 3 for
 * not found, 4 for a conflict, 5 for refused.
 */
export async function run(argv: string[]): Promise<void> {
  try {
    await inheritSettings(createProgram()).parseAsync(argv)
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

// A reader may close the pipe early (`| head`). That is not a failure.
function ignoreClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
}

/** Runs the command line of this process. */
export async function start(): Promise<void> {
  // Files are readable by their owner only, even in a directory that others may read.
  process.umask(0o077)
  process.stdout.on('error', ignoreClosedPipe)
  await run(process.argv)
}

if (import.meta.main) await start()
