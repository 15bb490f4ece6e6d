import { PROMPT } from '../wire.ts'
import { TOOL } from './speech.ts'

/** What a client has read from one stream. */
export interface Heard {
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
  hear(data: string, heard: Heard): void
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
  hear(data, heard) {
    if (data === '[DONE]') heard.ended = true
    else for (const { delta } of (JSON.parse(data) as ChatChunk).choices) hearDelta(delta, heard)
  },
}

function hearDelta(
  { reasoning, content, tool_calls = [] }: ChatChunk['choices'][number]['delta'],
  heard: Heard,
): void {
  heard.thought += reasoning ?? ''
  heard.text += content ?? ''
  for (const call of tool_calls) heard.input += call.function.arguments ?? ''
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
  hear(data, heard) {
    const { type, delta = {} } = JSON.parse(data) as MessagesEvent
    heard.thought += delta.thinking ?? ''
    heard.text += delta.text ?? ''
    heard.input += delta.partial_json ?? ''
    if (type === 'message_stop') heard.ended = true
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
  hear(data, heard) {
    if (data === '[DONE]') return
    const { type, delta = '' } = JSON.parse(data) as ResponsesEvent
    if (/^response\.reasoning(_summary)?_text\.delta$/.test(type)) heard.thought += delta
    if (type === 'response.output_text.delta') heard.text += delta
    if (type === 'response.function_call_arguments.delta') heard.input += delta
    if (type === 'response.completed') heard.ended = true
  },
}

/** The client dialects, by the name of their route. */
export const dialects: Record<string, Dialect> = { chat, messages: anthropicMessages, responses }
