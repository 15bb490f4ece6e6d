import type { Json } from '../../../src/core/kernel/json.ts'
import {
  base64Of,
  type Heard,
  halves,
  nothingHeard,
  type Said,
  sse,
  TOKENS,
  type Voice,
} from './voice.ts'

interface Message {
  role: string
  content: string | { type: string; text?: string; image_url?: { url: string } }[] | null
  reasoning?: string
  reasoning_details?: { signature?: string }[]
  tool_calls?: { id: string; function: { name: string; arguments: string } }[]
  tool_call_id?: string
}

/** OpenAI's chat completions, with reasoning in the form that compatible servers use. */
export const openaiChat: Voice = {
  streamType: 'text/event-stream',
  heard(body) {
    const heard = nothingHeard()
    for (const message of body.messages as Message[]) hear(message, heard)
    heard.tools = ((body.tools ?? []) as { function: { name: string } }[]).map(
      tool => tool.function.name,
    )
    heard.choice = choiceOf(body.tool_choice)
    heard.schema =
      (body.response_format as { json_schema?: Json } | undefined)?.json_schema?.schema ?? null
    return heard
  },
  whole: said => ({
    ...HEAD,
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: said.text ?? null, ...besides(said) },
        finish_reason: FINISH[said.finish],
      },
    ],
    usage: USAGE,
  }),
  stream: said =>
    Buffer.concat([
      sse([
        chunk({ role: 'assistant', content: '' }),
        ...(said.thought ? [chunk(thinking(said.thought))] : []),
        ...halves(said.text ?? '').map(content => chunk({ content })),
        ...(said.calls ?? []).flatMap(({ id, name, input }, index) => [
          chunk({
            tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }],
          }),
          ...halves(input).map(piece =>
            chunk({ tool_calls: [{ index, function: { arguments: piece } }] }),
          ),
        ]),
        chunk({}, FINISH[said.finish]),
        { ...HEAD, object: 'chat.completion.chunk', choices: [], usage: USAGE },
      ]),
      Buffer.from('data: [DONE]\n\n'),
    ]),
  broken: text =>
    sse([
      chunk({ role: 'assistant', content: text }),
      { error: { message: 'The server had an error', type: 'server_error', code: null } },
    ]),
  overloaded: {
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
const USAGE = {
  prompt_tokens: TOKENS.input,
  completion_tokens: TOKENS.output,
  total_tokens: TOKENS.input + TOKENS.output,
}

const chunk = (delta: object, finish_reason: string | null = null) => ({
  ...HEAD,
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, finish_reason }],
})

const thinking = ({ text, signature }: NonNullable<Said['thought']>) => ({
  reasoning: text,
  reasoning_details: [
    { type: 'reasoning.text', text, signature, format: 'anthropic-claude-v1', index: 0 },
  ],
})

const besides = ({ thought, calls }: Said) => ({
  ...(thought ? thinking(thought) : {}),
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

function hear(
  { role, content, tool_calls, tool_call_id, reasoning, reasoning_details }: Message,
  heard: Heard,
): void {
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
  const texts = parts.flatMap(part => part.text ?? [])
  if (role === 'system' || role === 'developer') heard.system += texts.join('')
  else if (role === 'tool') heard.results.push({ id: tool_call_id ?? '', text: texts.join('') })
  else heard.lines.push(...texts.map(text => `${role}: ${text}`))
  for (const { image_url } of parts as { image_url?: { url: string } }[])
    if (image_url) heard.images.push(base64Of(image_url.url))
  for (const { id, function: called } of tool_calls ?? [])
    heard.calls.push({ id, name: called.name, input: called.arguments })
  const signature = reasoning_details?.find(detail => detail.signature)?.signature
  if (reasoning && signature) heard.thoughts.push({ text: reasoning, signature })
}

const choiceOf = (choice: unknown): string | null =>
  typeof choice === 'string'
    ? choice
    : ((choice as { function?: { name: string } } | undefined)?.function?.name ?? null)
