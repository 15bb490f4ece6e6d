import { isObject, type Json, readObjects, readString } from '../../base/json.ts'
import { writeJson } from './text.ts'
import type { Trace, TraceOutput } from './trace.ts'

/** A use of a tool that a model asked for. */
interface ToolRequest {
  id: string
  name: string
  /** The arguments as JSON. */
  arguments: string
}

/** A message with its text in one piece, as most vendors show it. */
export interface PlainMessage {
  role: string
  content: string
  toolRequests: ToolRequest[]
}

/** Reads the messages of a call. Null where content is not told. */
export const readInput = ({ input }: Trace): PlainMessage[] | null =>
  input === null ? null : input.map(readMessage)

/** Reads an answer as a message. Null where content is not told. */
export const readOutput = ({ output }: Trace): PlainMessage | null =>
  output === null
    ? null
    : {
        role: 'assistant',
        content: output.completion ?? '',
        toolRequests: readToolRequests(output.toolCalls),
      }

/** Renders an answer as a message of a chat, as it came. */
export const buildAnswerMessage = ({ completion, reasoning, toolCalls }: TraceOutput): Json => ({
  role: 'assistant',
  content: completion,
  ...(reasoning === null ? {} : { reasoning }),
  ...(toolCalls === undefined ? {} : { tool_calls: toolCalls }),
})

function readMessage(message: unknown): PlainMessage {
  if (!isObject(message)) return { role: 'user', content: writeText(message), toolRequests: [] }
  return {
    role: readString(message.role) ?? 'user',
    content: writeText(message.content),
    toolRequests: readToolRequests(message.tool_calls),
  }
}

const readToolRequests = (value: unknown): ToolRequest[] =>
  readObjects(value).map(call => {
    const called = isObject(call.function) ? call.function : call
    return {
      id: readString(call.id) ?? '',
      name: readString(called.name) ?? '',
      arguments: writeText(called.arguments ?? {}),
    }
  })

// A list of parts that are all text is their text; anything else is told as it is.
function writeText(content: unknown): string {
  if (content === null || content === undefined) return ''
  if (typeof content === 'string') return content
  if (Array.isArray(content) && content.every(isText))
    return content.map(({ text }) => text).join('\n')
  return writeJson(content)
}

const isText = (part: unknown): part is { type: 'text'; text: string } =>
  isObject(part) && part.type === 'text' && typeof part.text === 'string'
