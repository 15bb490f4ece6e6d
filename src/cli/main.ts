import type { Command } from 'commander'
import { Option } from 'commander'
import { addExamples } from './help.ts'

import { createBareProgram, prepareProcess, runProgram } from './program.ts'

/** The commands by the word that names each, in the order of the help. */
const COMMANDS: Record<string, () => Promise<Command>> = {
  serve: async () => (await import('./commands/serve.ts')).createServeCommand(),
  setup: async () => (await import('./commands/setup.ts')).createSetupCommand(),
  init: async () => (await import('./commands/init.ts')).createInitCommand(),
  keys: async () => (await import('./commands/keys.ts')).createKeysCommand(),
  workspaces: async () => (await import('./commands/workspaces.ts')).createWorkspacesCommand(),
  members: async () => (await import('./commands/members.ts')).createMembersCommand(),
  budgets: async () => (await import('./commands/budgets.ts')).createBudgetsCommand(),
  batches: async () => (await import('./commands/batches.ts')).createBatchesCommand(),
  presets: async () => (await import('./commands/presets.ts')).createPresetsCommand(),
  byok: async () => (await import('./commands/byok.ts')).createByokCommand(),
  files: async () => (await import('./commands/files.ts')).createFilesCommand(),
  alerts: async () => (await import('./commands/alerts.ts')).createAlertsCommand(),
  destinations: async () =>
    (await import('./commands/destinations.ts')).createDestinationsCommand(),
  containers: async () => (await import('./commands/containers.ts')).createContainersCommand(),
  videos: async () => (await import('./commands/videos.ts')).createVideosCommand(),
  credits: async () => (await import('./commands/credits.ts')).createCreditsCommand(),
  audit: async () => (await import('./commands/audit.ts')).createAuditCommand(),
  ledger: async () => (await import('./commands/ledger.ts')).createLedgerCommand(),
  guardrails: async () => (await import('./commands/guardrails.ts')).createGuardrailsCommand(),
  scim: async () => (await import('./commands/scim.ts')).createScimCommand(),
  models: async () => (await import('./commands/models.ts')).createModelsCommand(),
  providers: async () => (await import('./commands/providers.ts')).createProvidersCommand(),
  tools: async () => (await import('./commands/tools.ts')).createToolsCommand(),
  mcp: async () => (await import('./commands/mcp.ts')).createMcpCommand(),
  generations: async () => (await import('./commands/generations.ts')).createGenerationsCommand(),
  logs: async () => (await import('./commands/logs.ts')).createLogsCommand(),
  agent: async () => (await import('./commands/agent.ts')).createAgentCommand(),
  try: async () => (await import('./commands/try.ts')).createTryCommand(),
  explain: async () => (await import('./commands/explain.ts')).createExplainCommand(),
  config: async () => (await import('./commands/config.ts')).createConfigCommand(),
  doctor: async () => (await import('./commands/doctor.ts')).createDoctorCommand(),
  selftest: async () => (await import('./commands/selftest.ts')).createSelftestCommand(),
  bench: async () => (await import('./commands/bench.ts')).createBenchCommand(),
  backup: async () => (await import('./commands/backup.ts')).createBackupCommand(),
  restore: async () => (await import('./commands/backup.ts')).createRestoreCommand(),
  nodes: async () => (await import('./commands/nodes.ts')).createNodesCommand(),
  store: async () => (await import('./commands/store.ts')).createStoreCommand(),
  usage: async () => (await import('./commands/usage.ts')).createUsageCommand(),
  datasets: async () => (await import('./commands/datasets.ts')).createDatasetsCommand(),
  export: async () => (await import('./commands/export.ts')).createExportCommand(),
  import: async () => (await import('./commands/import.ts')).createImportCommand(),
  rollups: async () => (await import('./commands/rollups.ts')).createRollupsCommand(),
  status: async () => (await import('./commands/status.ts')).createStatusCommand(),
  watch: async () => (await import('./commands/watch.ts')).createWatchCommand(),
  tui: async () => (await import('./commands/tui.ts')).createTuiCommand(),
  completions: async () => (await import('./commands/completions.ts')).createCompletionsCommand(),
  man: async () => (await import('./commands/man.ts')).createManCommand(),
  version: async () => (await import('./commands/version.ts')).createVersionCommand(),
  help: async () => (await import('./help.ts')).createHelpCommand(),
}

/**
 * Builds the program: `gateway NOUN VERB`. Where the first word of a line names a command, only
 * that one is loaded. Every command opens what it needs when it runs, so `--help` opens nothing.
 */
export async function createProgram(word = ''): Promise<Command> {
  const named = Object.hasOwn(COMMANDS, word) && !NEEDS_OTHERS.has(word) ? [word] : null
  const program = createBareProgram()
  for (const name of named ?? Object.keys(COMMANDS))
    program.addCommand(await (COMMANDS[name] as () => Promise<Command>)())
  addExamples(program)
  takePlaces(program)
  return program
}

/**
 * Makes commands that read no data and no config take the options that name them, unread, so that
 * a line begun for all commands fits each.
 */
function takePlaces(command: Command): void {
  for (const child of command.commands) takePlaces(child)
  if (command.commands.length > 0) return
  for (const flags of ['--data <dir>', '--config <file>']) {
    const option = new Option(flags).hideHelp()
    if (!command.options.some(({ long }) => long === option.long)) command.addOption(option)
  }
}

/** The commands that say what the others are. */
const NEEDS_OTHERS = new Set(['help', 'man', 'completions'])

/** Runs one command line of the program, as `runProgram` does. */
export const run = async (argv: string[]): Promise<void> =>
  runProgram(await createProgram(argv[2]), argv)

if (import.meta.main) {
  prepareProcess()
  await run(process.argv)
}
