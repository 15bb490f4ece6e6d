import { type Static, Type } from '@sinclair/typebox'
import { type Json, readString } from '../../base/json.ts'
import { closed, oneOf, optional } from '../../base/schema-builders.ts'
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
import { readCommands, renderLeft, runInContainer } from './container/run.ts'

const Parameters = Type.Object(
  {
    engine: optional(oneOf('auto', 'native', 'openrouter')),
    environment: optional(Environment),
  },
  closed,
)

/** Where its command runs. */
interface BashOptions extends EnvironmentOptions {
  /** Whether the client runs it: the default (wire reference D.6). */
  isOfClient: boolean
  path: string
}

/**
 * Runs a command of a model: in a sandbox of the gateway with `engine: openrouter`, and otherwise at
 * the client, which gets a call of a function (wire reference D.6, F.4).
 */
export const bash: ServerTool<BashOptions> = {
  name: 'bash',
  schema: Parameters,
  example: { engine: 'openrouter' },
  readOptions: (parameters, path, reading) => {
    const { engine, environment } = parameters as Static<typeof Parameters>
    return {
      ...readEnvironment(environment, `${path}.environment`, reading),
      isOfClient: engine !== 'openrouter',
      path,
    }
  },
  findObstacle: (world, { isOfClient }) => (isOfClient ? null : findSandboxObstacle(world)),
  hasOwnTime: true,
  delegate: (_, call, { isOfClient }) =>
    isOfClient
      ? { ...call, tools: [...call.tools, { type: 'function' as const, ...OF_CLIENT }] }
      : null,
  async listFunctions(world, context) {
    await requireEnvironment(world, context)
    return [buildFunction(context.options)]
  },
  describeUse: (_, { callId, input }) => {
    const command = readString(input.command)
    return { call_id: callId, ...(command === null ? {} : { command }) }
  },
  run: async (world, invocation) => runBash(world, invocation),
}

const COMMAND = { type: 'string', description: 'A command for bash' }

const OF_CLIENT = {
  name: 'bash',
  description: 'Runs a command of bash and returns what it prints.',
  parameters: {
    type: 'object',
    properties: { command: COMMAND },
    required: ['command'],
    additionalProperties: false,
  },
}

const buildFunction = (options: EnvironmentOptions) => ({
  name: 'bash',
  description:
    `Runs a command of bash on ${describeMachine(options)}. Files in the home directory, ` +
    'where it starts, are there again the next time; processes and other files are not.',
  parameters: {
    type: 'object',
    properties: { command: COMMAND, ...LIMITS },
    required: ['command'],
    additionalProperties: false,
  },
})

async function runBash(
  world: ExtensionWorld,
  invocation: ToolInvocation<BashOptions>,
): Promise<ToolResult> {
  const { callId, input } = invocation
  const read = readCommands([input.command], input)
  if (typeof read === 'string')
    return fail({ call_id: callId }, read.replace(/^commands\.0/, 'command'))
  const begun = { call_id: callId, command: read.commands[0] }
  const outcome = await runInContainer(world, invocation, read)
  if (typeof outcome === 'string') return fail(begun, outcome)
  const { place, left, results } = outcome
  const { stdout = '', stderr = '', exitCode = null } = results[0] ?? {}
  if (exitCode === null)
    return fail({ ...begun, stdout, stderr, ...place }, 'The command took too long.', stdout)
  const item = { ...begun, stdout, stderr, exitCode, ...place }
  const { call_id: _, command: __, ...said } = item
  return { text: JSON.stringify({ ...said, ...renderLeft(left) }), isError: false, item }
}

const fail = (item: Json, error: string, stdout = ''): ToolResult => ({
  text: stdout === '' ? error : `${error} Until then it printed: ${stdout}`,
  isError: true,
  item: { ...item, status: 'failed', error },
})
