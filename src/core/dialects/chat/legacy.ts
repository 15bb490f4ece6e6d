import type { ChatRequest, Message } from './schema.ts'

type Called = { name: string; arguments: string }

/** Whether the client speaks of functions, as the chat API did before it had tools: its answer has a `function_call` too. */
export const speaksOfFunctions = ({ functions }: ChatRequest): boolean => (functions?.length ?? 0) > 0

/**
 * The body with tools for its functions: `functions`, `function_call` and messages of the role `function`, which the chat API
 * had before tools and old clients still send. The body itself where it holds none.
 */
export function modern(body: ChatRequest): ChatRequest {
  const { functions, function_call, messages, ...rest } = body
  if (!functions && function_call == null && !messages?.some(isLegacy)) return body
  const tools = [...(rest.tools ?? []), ...(functions ?? []).map(definition => ({ type: 'function' as const, function: definition }))]
  const choice = rest.tool_choice ?? choiceOf(function_call)
  return {
    ...rest,
    ...(messages ? { messages: modernMessages(messages) } : {}),
    ...(tools.length > 0 ? { tools } : {}),
    ...(choice === undefined ? {} : { tool_choice: choice }),
  }
}

const isLegacy = (message: Message) => message.role === 'function' || ('function_call' in message && message.function_call != null)

const choiceOf = (choice: ChatRequest['function_call']) =>
  typeof choice === 'object' && choice !== null ? { type: 'function' as const, function: choice } : (choice ?? undefined)

// Calls had no ids then: a function's result belongs to the last call of that name.
function modernMessages(messages: Message[]): Message[] {
  const last = new Map<string, string>()
  return messages.map((message, at) => {
    if (message.role === 'function') {
      const { name, content, ...rest } = message
      return { ...rest, role: 'tool', content: content ?? '', tool_call_id: last.get(name) ?? `call_${name}` }
    }
    if (message.role !== 'assistant' || message.function_call == null) return message
    const { function_call, ...rest } = message
    const id = `call_${at}`
    last.set(function_call.name, id)
    return { ...rest, tool_calls: [...(rest.tool_calls ?? []), { id, type: 'function', function: function_call as Called }] }
  })
}
