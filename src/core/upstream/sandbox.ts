import { estimateTokenCount } from 'tokenx'
import type { Cancellation } from '../kernel/cancellation.ts'
import { isObject, type Json, text } from '../kernel/json.ts'
import { embeddings } from './sandbox/embeddings.ts'

/** The parameter `sandbox` of a request: how the sandbox is to behave. */
interface Wishes {
  /** Answers with this status instead. */
  fail?: number
  /** Breaks the stream off after this many words. */
  cut_after?: number
  /** Milliseconds before the first word, and between words. */
  delay_ms?: number
}

/**
 * Answers for the built-in provider: an OpenAI chat server in this process that echoes the last
 * message. It streams word by word, calls a tool when `tool_choice` or the message names one, fills
 * a given schema, and fails on request: `{"sandbox": {"fail": 503}}`. The same request always gets
 * the same answer. At `/embeddings` it returns vectors.
 */
export async function sandbox(
  path: string,
  body: Json,
  cancellation: Cancellation,
): Promise<Response> {
  const wishes = isObject(body.sandbox) ? (body.sandbox as Wishes) : {}
  await pause(wishes.delay_ms, cancellation)
  if (wishes.fail)
    return Response.json(
      { error: { message: 'Told to fail', code: 'sandbox_failure' } },
      { status: statusOf(wishes.fail) },
    )
  if (path === '/embeddings') return Response.json(embeddings(body))
  const reply = replyTo(body)
  return body.stream === true
    ? streamed(reply, body, wishes, cancellation)
    : Response.json(whole(reply, body))
}

interface Reply {
  reasoning: string | null
  words: string[]
  call: { name: string; arguments: string } | null
  finish: 'stop' | 'length' | 'tool_calls'
}

function replyTo(body: Json): Reply {
  const said = lastWords(body.messages)
  const reasoning = wantsReasoning(body) ? `The user said: ${said}` : null
  const tool = calledTool(body, said)
  if (tool)
    return {
      reasoning,
      words: [],
      call: { name: tool.name, arguments: JSON.stringify(exampleOf(tool.parameters, said)) },
      finish: 'tool_calls',
    }
  const words = formatted(body.response_format, said).match(/\s*\S+/g) ?? []
  const bound = Number(body.max_tokens ?? body.max_completion_tokens ?? Number.POSITIVE_INFINITY)
  return {
    reasoning,
    words: words.slice(0, bound),
    call: null,
    finish: words.length > bound ? 'length' : 'stop',
  }
}

// A conversation that ends with an assistant message is a prefill, which the echo continues.
function lastWords(messages: unknown): string {
  const turns = Array.isArray(messages) ? messages.filter(isObject) : []
  const last = turns.findLast(turn => turn.role === 'user' || turn.role === 'tool')
  return textOf(last?.content) || 'Hello from the sandbox'
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map(part =>
      isObject(part)
        ? typeof part.text === 'string'
          ? part.text
          : `[${text(part.type) ?? 'content'}]`
        : '',
    )
    .join(' ')
}

const wantsReasoning = (body: Json) =>
  typeof body.reasoning_effort === 'string' && body.reasoning_effort !== 'none'

interface ToolDefinition {
  name: string
  parameters: unknown
}

function calledTool(body: Json, said: string): ToolDefinition | undefined {
  const tools = Array.isArray(body.tools)
    ? body.tools.flatMap(tool =>
        isObject(tool) && isObject(tool.function)
          ? [tool.function as unknown as ToolDefinition]
          : [],
      )
    : []
  const choice = body.tool_choice
  if (choice === 'none') return undefined
  if (choice === 'required') return tools[0]
  if (isObject(choice) && isObject(choice.function))
    return tools.find(tool => tool.name === (choice.function as Json).name)
  const answersATool =
    Array.isArray(body.messages) &&
    isObject(body.messages.at(-1)) &&
    body.messages.at(-1).role === 'tool'
  return answersATool ? undefined : tools.find(tool => said.includes(tool.name))
}

function formatted(format: unknown, said: string): string {
  if (!isObject(format)) return said
  if (format.type === 'json_object') return JSON.stringify({ echo: said })
  if (format.type === 'json_schema' && isObject(format.json_schema))
    return JSON.stringify(exampleOf(format.json_schema.schema, said))
  return said
}

/** Builds a value that fits a simple schema, with the message as the value of every string. */
function exampleOf(schema: unknown, said: string, depth = 0): unknown {
  if (!isObject(schema) || depth > 8) return {}
  if (Array.isArray(schema.enum)) return schema.enum[0]
  if ('const' in schema) return schema.const
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type
  if (type === 'string') return said
  if (type === 'number' || type === 'integer') return 1
  if (type === 'boolean') return true
  if (type === 'null') return null
  if (type === 'array') return schema.items ? [exampleOf(schema.items, said, depth + 1)] : []
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : []
  return Object.fromEntries(
    properties.map(([name, member]) => [name, exampleOf(member, said, depth + 1)]),
  )
}

const HEAD = { id: 'chatcmpl-sandbox', created: 0, model: 'echo', system_fingerprint: 'sandbox' }

function whole(reply: Reply, body: Json) {
  const { reasoning, call, finish } = reply
  const content = call ? null : reply.words.join('')
  const tool_calls = call ? [{ id: 'call_sandbox_0', type: 'function', function: call }] : undefined
  const message = {
    role: 'assistant',
    content,
    ...(reasoning ? { reasoning } : {}),
    ...(tool_calls ? { tool_calls } : {}),
  }
  return {
    ...HEAD,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: finish }],
    usage: usageOf(reply, body),
  }
}

function usageOf({ words, reasoning, call }: Reply, body: Json) {
  const prompt_tokens = estimateTokenCount(JSON.stringify(body.messages ?? ''))
  const reasoning_tokens = reasoning ? estimateTokenCount(reasoning) : 0
  const completion_tokens =
    words.length + reasoning_tokens + (call ? estimateTokenCount(call.arguments) : 0)
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    completion_tokens_details: { reasoning_tokens },
  }
}

function streamed(reply: Reply, body: Json, wishes: Wishes, cancellation: Cancellation): Response {
  const events = chunks(reply, body)
  let words = 0
  const stream = new ReadableStream({
    async pull(controller) {
      await pause(words > 0 ? wishes.delay_ms : 0, cancellation)
      const { done, value } = events.next()
      if (done || (wishes.cut_after !== undefined && words >= wishes.cut_after))
        return controller.close()
      words += 1
      controller.enqueue(
        new TextEncoder().encode(
          `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`,
        ),
      )
    },
  })
  return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
}

function* chunks(reply: Reply, body: Json): Generator<Json | string> {
  const chunk = (delta: Json, finish_reason: string | null = null): Json => ({
    ...HEAD,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason }],
  })
  if (reply.reasoning) yield chunk({ role: 'assistant', reasoning: reply.reasoning })
  for (const word of reply.words) yield chunk({ role: 'assistant', content: word })
  if (reply.call)
    yield chunk({
      role: 'assistant',
      tool_calls: [{ index: 0, id: 'call_sandbox_0', type: 'function', function: reply.call }],
    })
  yield chunk({}, reply.finish)
  yield { ...HEAD, object: 'chat.completion.chunk', choices: [], usage: usageOf(reply, body) }
  yield '[DONE]'
}

const LONGEST_PAUSE = 60_000

function pause(milliseconds: number | undefined, cancellation: Cancellation): Promise<void> {
  if (!milliseconds || !(milliseconds > 0)) return Promise.resolve()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, Math.min(milliseconds, LONGEST_PAUSE))
  cancellation.listen(reject)
  return promise.finally(() => clearTimeout(timer))
}

const statusOf = (status: number) =>
  Number.isInteger(status) && status >= 400 && status <= 599 ? status : 500
