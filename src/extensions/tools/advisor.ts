import { Type } from '@sinclair/typebox'
import { type Json, readString } from '../../base/json.ts'
import { closed, optional } from '../../base/schema-builders.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message } from '../../language/message.ts'
import { askModel, type InnerWatch } from '../server-tool/inner.ts'
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

/**
 * Returns a conversation as another model may read it, one that has none of its tools: calls and
 * their results become texts. What only the provider of the first model understands is left out,
 * such as its reasoning.
 */
const toTranscript = (messages: Message[]): Message[] =>
  messages.flatMap(({ role, blocks, name }) => {
    const told = blocks.flatMap(tellBlock)
    if (told.length === 0) return []
    if (role === 'tool') return { role: 'user', blocks: [text('[Result of a tool]'), ...told] }
    return { role, blocks: told, ...(name === undefined ? {} : { name }) }
  })

function tellBlock(block: Block): Block[] {
  switch (block.type) {
    case 'tool-call':
      return [text(`[Called the tool ${block.name} with ${block.input || '{}'}]`)]
    case 'refusal':
      return [text(block.text)]
    case 'reasoning':
    case 'other':
      return []
    default:
      return [block]
  }
}

const text = (words: string): Block => ({ type: 'text', text: words })

/** Which model gives advice, what it reads, and how its advice comes. */
interface AdvisorOptions extends InnerOptions {
  forward_transcript: boolean
  /** Whether clients are shown the advice as it comes, where their API has events for that. */
  stream: boolean
}

/** Asks another model for advice (wire reference D.6). */
export const advisor: ServerTool<AdvisorOptions> = {
  name: 'advisor',
  schema: Type.Object(
    {
      ...INNER_PARAMETERS,
      forward_transcript: optional(Type.Boolean()),
      stream: optional(Type.Boolean()),
    },
    closed,
  ),
  readOptions,
  findObstacle: () => null,
  takesTurns: true,
  listModels: listInnerModels,
  listFunctions(world, context) {
    const name = nameFunction('advisor', context)
    checkModel(world, context)
    return [describeFunction(name, context.options)]
  },
  describeUse: (_, invocation) => describe(invocation),
  run: runAdvisor,
}

function readOptions(parameters: Json, path: string): AdvisorOptions {
  return {
    ...readInnerOptions(parameters, path),
    forward_transcript: parameters.forward_transcript === true,
    stream: parameters.stream === true,
  }
}

function describeFunction(
  name: string,
  { name: givenName, model, forward_transcript }: AdvisorOptions,
): ToolFunction {
  const who = givenName === null ? 'an advisor' : `the advisor "${givenName}"`
  const what = forward_transcript
    ? 'It reads the whole conversation; a prompt may say what to look at.'
    : 'It reads nothing but the prompt, which must say all that it needs.'
  return {
    name,
    description: `Asks ${who}, another model, for guidance on a hard question. ${what}`,
    parameters: {
      type: 'object',
      properties: {
        prompt: { type: 'string', description: 'The question' },
        ...(model === null ? { model: { type: 'string', description: MODEL } } : {}),
      },
      ...(forward_transcript ? {} : { required: ['prompt'] }),
      additionalProperties: false,
    },
  }
}

const MODEL = 'The slug of the model to ask, such as acme/large. Your own if omitted.'

function describe({ name, options, run, input }: ToolInvocation<AdvisorOptions>): Json {
  const prompt = readString(input.prompt)
  return {
    ...(listEntries('advisor', run).length > 1 ? { instance_name: name } : {}),
    ...(options.model === null ? {} : { model: options.model }),
    ...(prompt === null ? {} : { prompt }),
  }
}

async function runAdvisor(
  world: ToolWorld,
  invocation: ToolInvocation<AdvisorOptions>,
): Promise<ToolResult> {
  const { options, input } = invocation
  const item = describe(invocation)
  const prompt = readString(input.prompt)?.trim() ?? ''
  if (prompt === '' && (!options.forward_transcript || input.prompt !== undefined))
    return buildFailure('prompt: expected a text', item)
  const question = {
    models: pickModels(invocation, true),
    messages: buildMessages(invocation, prompt),
    params: options.params,
  }
  const answer = await askModel(world, invocation, question, watchAdvice(invocation))
  return buildResult(answer, 'advice', item)
}

// What the advisor thinks is no advice.
const watchAdvice = ({ options, show }: ToolInvocation<AdvisorOptions>): InnerWatch | null =>
  options.stream && show
    ? (kind, text) => {
        if (kind === 'text') show({ type: 'text', text })
      }
    : null

function buildMessages(
  { options, run }: ToolInvocation<AdvisorOptions>,
  prompt: string,
): Message[] {
  const call = (run.step?.call ?? run.call) as TextCall
  return [
    ...listInstructions(options),
    ...(options.forward_transcript ? toTranscript(call.messages) : []),
    buildMessage('user', prompt || 'Advise on how to go on with this conversation.'),
  ]
}
