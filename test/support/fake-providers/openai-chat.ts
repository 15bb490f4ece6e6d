import type { Json } from '../../../src/base/json.ts'
import {
  createReceivedRequest,
  extractBase64,
  type FakeProvider,
  type ReceivedRequest,
  renderSse,
  type ScriptedAnswer,
  splitInHalf,
  TOKENS,
} from './fake-provider.ts'

interface ChatMessage {
  role: string
  content: string | { type: string; text?: string; image_url?: { url: string } }[] | null
  reasoning?: string
  reasoning_details?: { signature?: string }[]
  tool_calls?: { id: string; function: { name: string; arguments: string } }[]
  tool_call_id?: string
}

/** OpenAI's chat completions, with reasoning in the form that compatible servers use. */
export const openaiChat: FakeProvider = {
  streamType: 'text/event-stream',
  readRequest(body) {
    const received = createReceivedRequest()
    for (const message of body.messages as ChatMessage[]) recordMessage(message, received)
    received.tools = ((body.tools ?? []) as { function: { name: string } }[]).map(
      tool => tool.function.name,
    )
    received.choice = readToolChoice(body.tool_choice)
    received.schema =
      (body.response_format as { json_schema?: Json } | undefined)?.json_schema?.schema ?? null
    return received
  },
  renderAnswer: answer => ({
    ...HEAD,
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: answer.text ?? null, ...renderExtras(answer) },
        finish_reason: FINISH[answer.finish],
      },
    ],
    usage: renderUsage(answer),
  }),
  renderStream: answer =>
    Buffer.concat([
      renderSse([
        renderChunk({ role: 'assistant', content: '' }),
        ...(answer.thought ? [renderChunk(renderReasoning(answer.thought))] : []),
        ...splitInHalf(answer.text ?? '').map(content => renderChunk({ content })),
        ...(answer.calls ?? []).flatMap(({ id, name, input }, index) => [
          renderChunk({
            tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }],
          }),
          ...splitInHalf(input).map(piece =>
            renderChunk({ tool_calls: [{ index, function: { arguments: piece } }] }),
          ),
        ]),
        renderChunk({}, FINISH[answer.finish]),
        { ...HEAD, object: 'chat.completion.chunk', choices: [], usage: renderUsage(answer) },
      ]),
      Buffer.from('data: [DONE]\n\n'),
    ]),
  renderBrokenStream: text =>
    renderSse([
      renderChunk({ role: 'assistant', content: text }),
      { error: { message: 'The server had an error', type: 'server_error', code: null } },
    ]),
  overloadedResponse: {
    status: 503,
    body: {
      error: {
        message: 'The engine is currently overloaded',
        type: 'server_error',
        code: null,
        param: null,
      },
    },
  },
}

const HEAD = { id: 'chatcmpl-1', created: 1_770_000_000, model: 'scripted' }
const FINISH = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  refusal: 'content_filter',
}
const renderUsage = ({ usage: { input, output } = TOKENS }: ScriptedAnswer) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
})

const renderChunk = (delta: object, finish_reason: string | null = null) => ({
  ...HEAD,
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, finish_reason }],
})

const renderReasoning = ({ text, signature }: NonNullable<ScriptedAnswer['thought']>) => ({
  reasoning: text,
  reasoning_details: [
    { type: 'reasoning.text', text, signature, format: 'anthropic-claude-v1', index: 0 },
  ],
})

const renderExtras = ({ thought, calls }: ScriptedAnswer) => ({
  ...(thought ? renderReasoning(thought) : {}),
  ...(calls
    ? {
        tool_calls: calls.map(({ id, name, input }) => ({
          id,
          type: 'function',
          function: { name, arguments: input },
        })),
      }
    : {}),
})

function recordMessage(
  { role, content, tool_calls, tool_call_id, reasoning, reasoning_details }: ChatMessage,
  received: ReceivedRequest,
): void {
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
  const texts = parts.flatMap(part => part.text ?? [])
  if (role === 'system' || role === 'developer') received.system += texts.join('')
  else if (role === 'tool') received.results.push({ id: tool_call_id ?? '', text: texts.join('') })
  else received.lines.push(...texts.map(text => `${role}: ${text}`))
  for (const { image_url } of parts as { image_url?: { url: string } }[])
    if (image_url) received.images.push(extractBase64(image_url.url))
  for (const { id, function: called } of tool_calls ?? [])
    received.calls.push({ id, name: called.name, input: called.arguments })
  const signature = reasoning_details?.find(detail => detail.signature)?.signature
  if (reasoning && signature) received.thoughts.push({ text: reasoning, signature })
}

const readToolChoice = (choice: unknown): string | null =>
  typeof choice === 'string'
    ? choice
    : ((choice as { function?: { name: string } } | undefined)?.function?.name ?? null)
