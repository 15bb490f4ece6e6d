import { type Static, Type } from '@sinclair/typebox'
import type { Json } from '../../base/json.ts'
import { closed, oneOf, optional } from '../../base/schema-builders.ts'
import type { CommandResult } from '../../network/sandboxes/sandbox.ts'
import type { ServerTool, ToolInvocation, ToolResult } from '../server-tool.ts'
import type { ExtensionWorld } from '../world.ts'
import {
  describeMachine,
  Environment,
  type EnvironmentOptions,
  findSandboxObstacle,
  LIMITS,
  readEnvironment,
  requireEnvironment,
} from './container/environment.ts'
import { type CommandInput, readCommands, renderLeft, runInContainer } from './container/run.ts'

const Parameters = Type.Object(
  {
    engine: optional(oneOf('auto', 'openrouter')),
    environment: optional(Environment),
  },
  closed,
)

/** Where its commands run, and how clients are shown them. */
interface ShellOptions extends EnvironmentOptions {
  /** Whether it was asked for as the provider’s own tool, and is shown so. */
  isPlain: boolean
  path: string
}

/**
 * Runs commands of a model in a sandbox of the gateway (wire reference D.6, F.4). All commands of a
 * call share a home; each has a shell of its own. OpenAI’s own `shell` with `engine: openrouter` is
 * run here too, and shown as OpenAI shows it.
 */
export const shell: ServerTool<ShellOptions> = {
  name: 'shell',
  dialects: ['responses', 'messages'],
  plainTypes: ['shell'],
  claims: ({ engine }) => engine === 'openrouter',
  schema: Parameters,
  readOptions: (parameters, path, reading) => {
    const { environment } = parameters as Static<typeof Parameters>
    return {
      ...readEnvironment(environment, `${path}.environment`, reading),
      isPlain: reading?.isPlain ?? false,
      path,
    }
  },
  findObstacle: findSandboxObstacle,
  hasOwnTime: true,
  async listFunctions(world, context) {
    await requireEnvironment(world, context)
    return [buildFunction(context.options)]
  },
  describeUse: (_, invocation) => {
    const input = readCommands(invocation.input.commands, invocation.input)
    return describe(invocation, typeof input === 'string' ? null : input)
  },
  run: async (world, invocation) => runShell(world, invocation),
}

const buildFunction = (options: EnvironmentOptions) => ({
  name: 'shell',
  description:
    `Runs commands of bash, one after the other, on ${describeMachine(options)}. Files in ` +
    'the home directory, where each command starts, are there again the next time; processes ' +
    'and other files are not.',
  parameters: {
    type: 'object',
    properties: {
      commands: {
        type: 'array',
        items: { type: 'string' },
        description: 'The commands, each for a shell of its own',
      },
      ...LIMITS,
      max_output_length: {
        type: 'integer',
        description: 'The most characters of each output: 16384 if omitted, at most 65536',
      },
    },
    required: ['commands'],
    additionalProperties: false,
  },
})

function describe(
  { callId, options: { isPlain } }: ToolInvocation<ShellOptions>,
  input: CommandInput | null,
): Json {
  const type = isPlain ? { type: 'shell_call' } : {}
  return { ...type, call_id: callId, ...(input ? { action: { ...input } } : {}) }
}

async function runShell(
  world: ExtensionWorld,
  invocation: ToolInvocation<ShellOptions>,
): Promise<ToolResult> {
  const input = readCommands(invocation.input.commands, invocation.input)
  if (typeof input === 'string') return fail(invocation, null, input)
  const outcome = await runInContainer(world, invocation, input)
  if (typeof outcome === 'string') return fail(invocation, input, outcome)
  const { results, place, left } = outcome
  const output = results.map(renderResult)
  const item = describe(invocation, input)
  const { callId, options } = invocation
  const { max_output_length } = input
  return {
    text: JSON.stringify({ results: output, ...place, ...renderLeft(left) }),
    isError: false,
    ...(options.isPlain
      ? { item, items: [renderOutput(callId, { max_output_length, output, ...place })] }
      : { item: { ...item, output, ...place } }),
  }
}

const renderResult = ({ stdout, stderr, exitCode }: CommandResult): Json => ({
  stdout,
  stderr,
  outcome: exitCode === null ? { type: 'timeout' } : { type: 'exit', exit_code: exitCode },
})

const renderOutput = (call_id: string, members: Json): Json => ({
  type: 'shell_call_output',
  call_id,
  status: 'completed',
  ...members,
})

function fail(
  invocation: ToolInvocation<ShellOptions>,
  input: CommandInput | null,
  error: string,
): ToolResult {
  const item = describe(invocation, input)
  const { callId, options } = invocation
  const failed = { status: 'incomplete', output: [], error }
  return {
    text: error,
    isError: true,
    ...(options.isPlain
      ? { item, items: [renderOutput(callId, failed)] }
      : { item: { ...item, status: 'failed', error } }),
  }
}
