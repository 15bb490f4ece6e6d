import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { type Json, readString } from '../../base/json.ts'
import { closed, list, open, optional, SomeName } from '../../base/schema-builders.ts'
import type { ServerToolRequest, ToolReading } from '../../language/server-tools.ts'
import { askModel } from '../server-tool/inner.ts'
import type {
  ServerTool,
  ToolFunction,
  ToolInvocation,
  ToolResult,
  ToolWorld,
} from '../server-tool.ts'
import {
  buildFailure,
  buildMessage,
  buildResult,
  checkModel,
  INNER_PARAMETERS,
  type InnerOptions,
  listEntries,
  listInnerModels,
  listInstructions,
  nameFunction,
  pickModels,
  readInnerOptions,
} from './inner-call.ts'

/** The most turns with tools that a subagent takes, and the default (wire reference D.6). */
const MAX_STEPS = 25

const Parameters = Type.Object(
  {
    ...INNER_PARAMETERS,
    max_tool_calls: optional(Type.Integer({ minimum: 1, maximum: MAX_STEPS })),
    tools: optional(list(Type.Object({ type: SomeName }, open), { maxItems: 64 })),
    inherit_functions: optional(Type.Boolean()),
    inherited_function_names: optional(list(SomeName)),
  },
  closed,
)

/** Which model takes tasks over, and with which tools. */
interface SubagentOptions extends InnerOptions {
  max_tool_calls: number
  tools: ServerToolRequest[]
}

/** Has another model do a task, with tools that the gateway runs (wire reference D.6). */
export const subagent: ServerTool<SubagentOptions> = {
  name: 'subagent',
  schema: Parameters,
  readOptions,
  findObstacle,
  takesTurns: true,
  listModels: listInnerModels,
  listFunctions(world, context) {
    const name = nameFunction('subagent', context)
    checkModel(world, context)
    return [describeFunction(name, context.options)]
  },
  describeUse: (_, invocation) => describe(invocation),
  run: runSubagent,
}

function readOptions(parameters: Json, path: string, reading?: ToolReading): SubagentOptions {
  const { max_tool_calls, tools, inherit_functions, inherited_function_names } =
    parameters as Static<typeof Parameters>
  if (inherit_functions) throw refuseFunctions(`${path}.inherit_functions`, 'false')
  if (inherited_function_names?.length)
    throw refuseFunctions(`${path}.inherited_function_names`, 'no names')
  return {
    ...readInnerOptions(parameters, path),
    max_tool_calls: max_tool_calls ?? MAX_STEPS,
    tools: (tools ?? []).map((tool, i) => readTool(tool, `${path}.tools.${i}`, reading)),
  }
}

const refuseFunctions = (field: string, expected: string) =>
  invalid(
    `${field}: expected ${expected}, as a subagent cannot call functions of its client`,
    field,
  )

/** The tools that a subagent cannot have: itself, and what its client would have to run. */
const WITHHELD = ['subagent', 'apply_patch']

function readTool(entry: unknown, field: string, reading?: ToolReading): ServerToolRequest {
  const request = reading?.readTool(entry, field)
  if (!request || WITHHELD.includes(request.name))
    throw invalid(`${field}.type: expected a tool that the gateway runs for a subagent`, field)
  return request
}

function findObstacle(world: ToolWorld, { tools }: SubagentOptions): string | null {
  for (const { name, type, options } of tools) {
    const obstacle = world.tools.find(tool => tool.name === name)?.findObstacle(world, options)
    if (obstacle) return `its tool ${type} does not work: ${obstacle}`
  }
  return null
}

function describeFunction(name: string, options: SubagentOptions): ToolFunction {
  const who = options.name === null ? 'a worker' : `the worker "${options.name}"`
  const tools = options.tools.map(({ type }) => type)
  const can = tools.length > 0 ? ` It can use ${tools.join(', ')}.` : ''
  return {
    name,
    description:
      `Has ${who}, another model, do a task by itself, and returns its outcome. It sees nothing ` +
      `of this conversation but the description of the task.${can}`,
    parameters: {
      type: 'object',
      properties: {
        task_name: { type: 'string', description: 'A short name of the task' },
        task_description: { type: 'string', description: 'The whole task, with all it needs' },
      },
      required: ['task_name', 'task_description'],
      additionalProperties: false,
    },
  }
}

function describe(invocation: ToolInvocation<SubagentOptions>): Json {
  const { callId, name, options, run, input } = invocation
  const taskName = readString(input.task_name)
  const task = readString(input.task_description)
  return {
    call_id: callId,
    ...(listEntries('subagent', run).indexOf(options) > 0 ? { instance_name: name } : {}),
    ...(options.name === null ? {} : { name: options.name }),
    ...(options.model === null ? {} : { model: options.model }),
    ...(taskName === null ? {} : { task_name: taskName }),
    ...(task === null ? {} : { task_description: task }),
  }
}

async function runSubagent(
  world: ToolWorld,
  invocation: ToolInvocation<SubagentOptions>,
): Promise<ToolResult> {
  const { options, input } = invocation
  const item = describe(invocation)
  const task = readString(input.task_description)?.trim() ?? ''
  if (task === '') return buildFailure('task_description: expected a text', item)
  const { tools: requests, max_tool_calls: step_count, params } = options
  const answer = await askModel(world, invocation, {
    models: pickModels(invocation, false),
    messages: [...listInstructions(options), buildMessage('user', task)],
    params,
    ...(requests.length > 0
      ? { serverTools: { requests, stops: [{ type: 'step_count_is', step_count }] } }
      : {}),
  })
  return buildResult(answer, 'outcome', item)
}
