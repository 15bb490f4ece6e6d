import { Command, CommanderError } from 'commander'
import { printable } from '../core/kernel/words.ts'
import { auditCommand } from './commands/audit.ts'
import { budgetsCommand } from './commands/budgets.ts'
import { byokCommand } from './commands/byok.ts'
import { configCommand } from './commands/config.ts'
import { creditsCommand } from './commands/credits.ts'
import { doctorCommand } from './commands/doctor.ts'
import { explainCommand } from './commands/explain.ts'
import { generationsCommand } from './commands/generations.ts'
import { guardrailsCommand } from './commands/guardrails.ts'
import { initCommand } from './commands/init.ts'
import { keysCommand } from './commands/keys.ts'
import { membersCommand } from './commands/members.ts'
import { modelsCommand } from './commands/models.ts'
import { presetsCommand } from './commands/presets.ts'
import { providersCommand } from './commands/providers.ts'
import { scimCommand } from './commands/scim.ts'
import { serveCommand } from './commands/serve.ts'
import { workspacesCommand } from './commands/workspaces.ts'
import { fail } from './output.ts'
import { VERSION } from './version.ts'

/**
 * Builds the program: `gateway NOUN VERB`. Every command opens what it needs when it runs, so
 * `--help` opens nothing.
 */
export function program(): Command {
  return new Command('gateway')
    .description('One API in front of every model provider')
    .version(VERSION)
    .configureOutput({
      outputError: text =>
        process.stderr.write(`gateway: ${oneLine(text.replace(/^error: /, ''))}\n`),
    })
    .exitOverride()
    .addCommand(serveCommand())
    .addCommand(initCommand())
    .addCommand(keysCommand())
    .addCommand(workspacesCommand())
    .addCommand(membersCommand())
    .addCommand(budgetsCommand())
    .addCommand(presetsCommand())
    .addCommand(byokCommand())
    .addCommand(creditsCommand())
    .addCommand(auditCommand())
    .addCommand(guardrailsCommand())
    .addCommand(scimCommand())
    .addCommand(modelsCommand())
    .addCommand(providersCommand())
    .addCommand(generationsCommand())
    .addCommand(explainCommand())
    .addCommand(configCommand())
    .addCommand(doctorCommand())
}

// Commander repeats the input, and puts its suggestion on a line of its own.
const oneLine = (text: string) => printable(text.trim().replaceAll('\n', ' '))

/**
 * Runs one command line. The exit code is 0 for success, 1 for failure, 2 for wrong usage, 3 for
 * not found, 4 for a conflict, 5 for refused.
 */
export async function run(argv: string[]): Promise<void> {
  try {
    await inherit(program()).parseAsync(argv)
  } catch (thrown) {
    process.exitCode = thrown instanceof CommanderError ? usageCode(thrown) : fail(thrown)
  }
}

const usageCode = ({ exitCode }: CommanderError) => (exitCode === 0 ? 0 : 2)

// Commander passes its settings only to commands that it creates itself.
function inherit(command: Command): Command {
  for (const child of command.commands) inherit(child.copyInheritedSettings(command))
  return command
}

// A reader may close the pipe early (`| head`). That is not a failure.
function leftByReader(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
}

if (import.meta.main) {
  // Files are readable by their owner only, even in a directory that others may read.
  process.umask(0o077)
  process.stdout.on('error', leftByReader)
  await run(process.argv)
}
