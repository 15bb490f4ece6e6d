import OpenAI, { APIError } from 'openai'
import type { ReasoningDetail } from '../../../src/language/reasoning.ts'
import { appendDetail } from '../../../src/language/reasoning.ts'
import {
  type ClientReading,
  type ClientRequest,
  createEmptyReading,
  type DialectClient,
  PARAMETERS,
} from './dialect.ts'

/** OpenAI's own client. */
export const chat: DialectClient = {
  async ask(base, key, asking) {
    const client = new OpenAI({ baseURL: `${base}/api/v1`, apiKey: key, maxRetries: 0 })
    const reading = createEmptyReading()
    const message = {
      role: 'assistant' as const,
      content: '',
      reasoning: '',
      reasoning_details: [],
      tool_calls: [],
    }
    reading.own = message
    try {
      if (asking.stream)
        for await (const chunk of await client.chat.completions.create({
          ...buildBody(asking),
          stream: true,
        }))
          addChunk(chunk, message, reading)
      else
        addWhole(
          await client.chat.completions.create({ ...buildBody(asking), stream: false }),
          message,
          reading,
        )
    } catch (thrown) {
      if (!(thrown instanceof APIError)) throw thrown
      const { code, metadata } = thrown.error as { code: number; metadata: { error_type: string } }
      reading.failure = {
        status: thrown.status ?? null,
        type: metadata?.error_type ?? String(code),
      }
    }
    return finishReading(message, reading)
  },
}

interface Message {
  content: string | null
  reasoning?: string | null
  reasoning_details?: ReasoningDetail[]
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[]
}

function buildBody({
  model,
  system,
  text = 'Hi',
  image,
  tools,
  mustCall,
  schema,
  thinks,
  after,
}: ClientRequest) {
  const content = image
    ? [
        { type: 'text' as const, text },
        { type: 'image_url' as const, image_url: { url: image } },
      ]
    : text
  return {
    model,
    max_tokens: 4_000,
    messages: [
      ...(system ? [{ role: 'system' as const, content: system }] : []),
      { role: 'user' as const, content },
      ...(after ? [after.answer.own as OpenAI.ChatCompletionAssistantMessageParam] : []),
      ...(after?.results.map((result, i) => ({
        role: 'tool' as const,
        tool_call_id: after.answer.calls[i]?.id ?? '',
        content: result,
      })) ?? []),
    ],
    ...(tools
      ? {
          tools: tools.map(name => ({
            type: 'function' as const,
            function: { name, parameters: PARAMETERS },
          })),
        }
      : {}),
    ...(mustCall
      ? { tool_choice: { type: 'function' as const, function: { name: mustCall } } }
      : {}),
    ...(schema
      ? {
          response_format: {
            type: 'json_schema' as const,
            json_schema: { name: 'answer', strict: true, schema },
          },
        }
      : {}),
    ...(thinks ? { reasoning_effort: 'low' as const } : {}),
  }
}

function addChunk(
  chunk: OpenAI.ChatCompletionChunk,
  message: Message,
  reading: ClientReading,
): void {
  const [choice] = chunk.choices
  if (chunk.usage)
    reading.tokens = { input: chunk.usage.prompt_tokens, output: chunk.usage.completion_tokens }
  if (!choice) return
  const delta = choice.delta as Partial<Message> & OpenAI.ChatCompletionChunk.Choice.Delta
  message.content = (message.content ?? '') + (delta.content ?? '')
  message.reasoning = (message.reasoning ?? '') + (delta.reasoning ?? '')
  for (const detail of delta.reasoning_details ?? [])
    appendDetail(message.reasoning_details ?? [], detail)
  for (const call of delta.tool_calls ?? []) addCall(call, message)
  reading.finish = choice.finish_reason ?? reading.finish
}

function addCall(
  call: OpenAI.ChatCompletionChunk.Choice.Delta.ToolCall,
  { tool_calls = [] }: Message,
): void {
  tool_calls[call.index] ??= {
    id: call.id ?? '',
    type: 'function',
    function: { name: call.function?.name ?? '', arguments: '' },
  }
  const known = tool_calls[call.index]
  if (known) known.function.arguments += call.function?.arguments ?? ''
}

function addWhole(answer: OpenAI.ChatCompletion, message: Message, reading: ClientReading): void {
  const [choice] = answer.choices
  Object.assign(message, choice?.message)
  reading.finish = choice?.finish_reason ?? null
  if (answer.usage)
    reading.tokens = { input: answer.usage.prompt_tokens, output: answer.usage.completion_tokens }
}

const FINISHES: Record<string, string> = { content_filter: 'refusal' }

const finishReading = (message: Message, reading: ClientReading): ClientReading => ({
  ...reading,
  text: message.content ?? '',
  thought: message.reasoning ?? '',
  calls: (message.tool_calls ?? []).map(({ id, function: { name, arguments: input } }) => ({
    id,
    name,
    input: JSON.parse(input),
  })),
  finish: reading.finish && (FINISHES[reading.finish] ?? reading.finish),
  own: dropEmptyCalls(message),
})

// Clients do not send an empty list of tool calls.
const dropEmptyCalls = ({ tool_calls, ...message }: Message) =>
  tool_calls?.length ? { ...message, tool_calls } : message
