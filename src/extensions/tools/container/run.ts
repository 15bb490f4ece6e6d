import { GatewayError } from '../../../base/errors.ts'
import type { Json } from '../../../base/json.ts'
import { runCommands } from '../../../network/containers/commands.ts'
import type { Container, ContainerFile } from '../../../network/containers/store.ts'
import { citeContainerFile } from '../../../network/containers/view.ts'
import { type CommandResult, SandboxGone } from '../../../network/sandboxes/sandbox.ts'
import type { ToolInvocation } from '../../server-tool.ts'
import type { ExtensionWorld } from '../../world.ts'
import { type EnvironmentOptions, nameContainer } from './environment.ts'

/** The most commands of one call, and characters of one command (wire reference F.4). */
const MOST_COMMANDS = 100
const LONGEST_COMMAND = 16_384

/** The limits of a call that names none, and the most that it may name. */
const DEFAULT_TIMEOUT = 120_000
const LONGEST_TIMEOUT = 300_000
const DEFAULT_OUTPUT = 16_384
const LONGEST_OUTPUT = 65_536
/** The most files that one call reports. */
const MOST_FILES = 10

/** What a model wants to run. */
export interface CommandInput {
  commands: string[]
  /** Null for the default. */
  timeout_ms: number | null
  max_output_length: number | null
}

/** Checks what a model wants to run. Returns what is wrong with it, in words for the model. */
export function readCommands(commands: unknown, input: Json): CommandInput | string {
  if (!Array.isArray(commands) || commands.length === 0 || commands.length > MOST_COMMANDS)
    return `commands: expected a list of 1 to ${MOST_COMMANDS} commands`
  for (const [i, command] of commands.entries()) {
    if (typeof command !== 'string' || command.trim() === '')
      return `commands.${i}: expected a command`
    if (command.length > LONGEST_COMMAND || command.includes('\0'))
      return `commands.${i}: expected at most ${LONGEST_COMMAND} characters, without NUL`
  }
  const timeout_ms = readLimit(input.timeout_ms, LONGEST_TIMEOUT)
  if (timeout_ms === undefined)
    return `timeout_ms: expected a whole number from 1 to ${LONGEST_TIMEOUT}`
  const max_output_length = readLimit(input.max_output_length, LONGEST_OUTPUT)
  if (max_output_length === undefined)
    return `max_output_length: expected a whole number from 1 to ${LONGEST_OUTPUT}`
  return { commands: commands as string[], timeout_ms, max_output_length }
}

/** Returns null for what is not there, and undefined for what is no limit. */
function readLimit(value: unknown, most: number): number | null | undefined {
  if (value == null) return null
  const isLimit = Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= most
  return isLimit ? Number(value) : undefined
}

/** What came of the commands of one call. */
interface CommandsRun {
  results: CommandResult[]
  /** The members of its item that say where it ran and what it made. */
  place: { container_id: string; files?: ReturnType<typeof citeContainerFile>[] }
  /** How many entries of the home are not kept. */
  left: number
}

/**
 * Runs the commands of one call in its container. Returns what has failed, in words for the model.
 * Throws only the reason of the cancellation.
 */
export async function runInContainer(
  world: ExtensionWorld,
  invocation: ToolInvocation<EnvironmentOptions>,
  { commands, timeout_ms, max_output_length }: CommandInput,
): Promise<CommandsRun | string> {
  const { cancellation, options, run } = invocation
  const longest = world.config.sandbox.timeout_seconds * 1000
  try {
    const { container, results, files, left } = await runCommands(world, {
      workspace_id: run.actor.workspace_id,
      holder: run.actor.key_hash ?? run.actor.kind,
      name: nameContainer(invocation),
      file_ids: options.file_ids,
      hosts: options.hosts,
      commands,
      timeoutMs: Math.min(timeout_ms ?? DEFAULT_TIMEOUT, longest),
      maxOutput: max_output_length ?? DEFAULT_OUTPUT,
      cancellation,
    })
    return { results, place: renderPlace(container, files), left }
  } catch (thrown) {
    if (cancellation.reason) throw cancellation.reason
    return describeFailure(thrown)
  }
}

function renderPlace(container: Container, files: ContainerFile[]): CommandsRun['place'] {
  const cited = files.slice(0, MOST_FILES).map(file => citeContainerFile(container, file))
  return { container_id: container.name, ...(cited.length > 0 ? { files: cited } : {}) }
}

// What other code throws may hold paths of the host, so only our own sentences are repeated.
const describeFailure = (thrown: unknown): string =>
  thrown instanceof GatewayError || thrown instanceof SandboxGone
    ? thrown.message
    : 'The container failed.'

/** What the model is told of what does not stay. */
export const renderLeft = (left: number): Json =>
  left === 0 ? {} : { not_kept: `${left} links, special files or files that are too much` }
