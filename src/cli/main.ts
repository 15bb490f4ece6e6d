import type { Command } from 'commander'
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
import { addExamples, createHelpCommand } from './help.ts'
import { createBareProgram, prepareProcess, runProgram } from './program.ts'

/**
 * Builds the program: `gateway NOUN VERB`. Every command opens what it needs when it runs, so
 * `--help` opens nothing.
 */
export function createProgram(): Command {
  const program = createBareProgram()
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

/** Runs one command line of the program, as `runProgram` does. */
export const run = (argv: string[]): Promise<void> => runProgram(createProgram(), argv)

if (import.meta.main) {
  prepareProcess()
  await run(process.argv)
}
