import { PROMPT } from '../../src/cli/bench/wire.ts'
import { TOOL } from './model-output.ts'

/** What a client has read from one stream. */
export interface StreamedOutput {
  thought: string
  text: string
  input: string
  /** Whether the dialect's own last event has arrived. */
  ended: boolean
}

/** How one family of clients requests a stream, and what it reads from it. */
export interface Dialect {
  path: string
  body(model: string): object
  /** Reads the data of one event. */
  readEvent(data: string, output: StreamedOutput): void
}

const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const messages = [{ role: 'user', content: PROMPT.repeat(2) }]

interface ChatChunk {
  choices: {
    delta: {
      reasoning?: string
      content?: string
      tool_calls?: { function: { arguments?: string } }[]
    }
  }[]
}

const chat: Dialect = {
  path: '/api/v1/chat/completions',
  body: model => ({
    model,
    messages,
    max_tokens: 4_000,
    stream: true,
    tools: [{ type: 'function', function: { name: TOOL.name, parameters: PARAMETERS } }],
  }),
  readEvent(data, output) {
    if (data === '[DONE]') output.ended = true
    else for (const { delta } of (JSON.parse(data) as ChatChunk).choices) readDelta(delta, output)
  },
}

function readDelta(
  { reasoning, content, tool_calls = [] }: ChatChunk['choices'][number]['delta'],
  output: StreamedOutput,
): void {
  output.thought += reasoning ?? ''
  output.text += content ?? ''
  for (const call of tool_calls) output.input += call.function.arguments ?? ''
}

interface MessagesEvent {
  type: string
  delta?: { thinking?: string; text?: string; partial_json?: string }
}

const anthropicMessages: Dialect = {
  path: '/api/v1/messages',
  body: model => ({
    model,
    messages,
    max_tokens: 4_000,
    stream: true,
    thinking: { type: 'enabled', budget_tokens: 1_024 },
    tools: [{ name: TOOL.name, input_schema: PARAMETERS }],
  }),
  readEvent(data, output) {
    const { type, delta = {} } = JSON.parse(data) as MessagesEvent
    output.thought += delta.thinking ?? ''
    output.text += delta.text ?? ''
    output.input += delta.partial_json ?? ''
    if (type === 'message_stop') output.ended = true
  },
}

interface ResponsesEvent {
  type: string
  delta?: string
}

const responses: Dialect = {
  path: '/api/v1/responses',
  body: model => ({
    model,
    input: messages,
    max_output_tokens: 4_000,
    stream: true,
    reasoning: { effort: 'low', summary: 'auto' },
    tools: [{ type: 'function', name: TOOL.name, parameters: PARAMETERS }],
  }),
  readEvent(data, output) {
    if (data === '[DONE]') return
    const { type, delta = '' } = JSON.parse(data) as ResponsesEvent
    if (/^response\.reasoning(_summary)?_text\.delta$/.test(type)) output.thought += delta
    if (type === 'response.output_text.delta') output.text += delta
    if (type === 'response.function_call_arguments.delta') output.input += delta
    if (type === 'response.completed') output.ended = true
  },
}

/** The client dialects, by the name of their route. */
export const dialects: Record<string, Dialect> = { chat, messages: anthropicMessages, responses }
