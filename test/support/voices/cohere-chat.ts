import {
  base64Of,
  type Call,
  type Heard,
  halves,
  nothingHeard,
  type Said,
  sse,
  TOKENS,
  type Voice,
} from './voice.ts'

interface Part {
  type: string
  text?: string
  thinking?: string
  image_url?: { url: string }
  document?: { data: unknown }
}
interface Message {
  role: string
  content?: string | Part[]
  tool_calls?: { id: string; function: { name: string; arguments: string } }[]
  tool_plan?: string
  tool_call_id?: string
}

/** Cohere's chat, version 2. */
export const cohereChat: Voice = {
  streamType: 'text/event-stream',
  heard(body) {
    const heard = nothingHeard()
    for (const message of body.messages as Message[]) hear(message, heard)
    const choice = body.tool_choice as string | undefined
    heard.tools = ((body.tools ?? []) as { function: { name: string } }[]).map(
      tool => tool.function.name,
    )
    heard.choice =
      choice === undefined
        ? null
        : choice === 'REQUIRED' && heard.tools.length === 1
          ? (heard.tools[0] ?? null)
          : choice.toLowerCase()
    const format = body.response_format as { json_schema?: unknown; schema?: unknown } | undefined
    heard.schema = format?.json_schema ?? format?.schema ?? null
    return heard
  },
  whole: said => ({
    id: 'c1',
    message: {
      role: 'assistant',
      content: contentOf(said),
      ...(said.calls ? { tool_calls: said.calls.map(called) } : {}),
    },
    finish_reason: FINISH[said.finish],
    usage: USAGE,
  }),
  stream: said =>
    sse(
      [
        {
          type: 'message-start',
          id: 'c1',
          delta: {
            message: {
              role: 'assistant',
              content: [],
              tool_plan: '',
              tool_calls: [],
              citations: [],
            },
          },
        },
        ...contentOf(said).flatMap((part, index) => streamedPart(part, index)),
        ...(said.calls ?? []).flatMap((call, index) => streamedCall(call, index)),
        { type: 'message-end', delta: { finish_reason: FINISH[said.finish], usage: USAGE } },
      ],
      true,
    ),
  broken: text =>
    sse(
      [
        { type: 'message-start', id: 'c1', delta: { message: { role: 'assistant' } } },
        ...streamedPart({ type: 'text', text }, 0).slice(0, -1),
        { type: 'message-end', delta: { finish_reason: 'ERROR', error: 'internal' } },
      ],
      true,
    ),
  overloaded: { status: 503, body: { id: 'e1', message: 'the model is overloaded' } },
}

const FINISH = {
  stop: 'COMPLETE',
  length: 'MAX_TOKENS',
  tool_calls: 'TOOL_CALL',
  refusal: 'ERROR_TOXIC',
}
const USAGE = {
  billed_units: { input_tokens: TOKENS.input, output_tokens: TOKENS.output },
  tokens: { input_tokens: TOKENS.input, output_tokens: TOKENS.output },
}

const called = ({ id, name, input }: Call) => ({
  id,
  type: 'function',
  function: { name, arguments: input },
})

const contentOf = ({ text, thought }: Said): Part[] => [
  ...(thought ? [{ type: 'thinking', thinking: thought.text }] : []),
  ...(text ? [{ type: 'text', text }] : []),
]

function streamedPart(part: Part, index: number): object[] {
  const said = part.type as 'text' | 'thinking'
  return [
    { type: 'content-start', index, delta: { message: { content: { type: said, [said]: '' } } } },
    ...halves(part[said] ?? '').map(piece => ({
      type: 'content-delta',
      index,
      delta: { message: { content: { [said]: piece } } },
    })),
    { type: 'content-end', index },
  ]
}

const streamedCall = (call: Call, index: number): object[] => [
  {
    type: 'tool-call-start',
    index,
    delta: { message: { tool_calls: called({ ...call, input: '' }) } },
  },
  ...halves(call.input).map(piece => ({
    type: 'tool-call-delta',
    index,
    delta: { message: { tool_calls: { function: { arguments: piece } } } },
  })),
  { type: 'tool-call-end', index },
]

// Text beside a tool call is the plan that led to it.
function hear(
  { role, content = [], tool_plan, tool_calls, tool_call_id }: Message,
  heard: Heard,
): void {
  const parts: Part[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  const texts = parts.flatMap(
    part => part.text ?? (part.document ? documentText(part.document.data) : []),
  )
  if (role === 'system') heard.system += texts.join('')
  else if (role === 'tool') heard.results.push({ id: tool_call_id ?? '', text: texts.join('') })
  else
    heard.lines.push(
      ...[...texts, ...(tool_plan ? [tool_plan] : [])].map(text => `${role}: ${text}`),
    )
  for (const { image_url } of parts) if (image_url) heard.images.push(base64Of(image_url.url))
  for (const { id, function: fn } of tool_calls ?? [])
    heard.calls.push({ id, name: fn.name, input: fn.arguments })
}

// A document is a string, or an object with a string member.
const documentText = (data: unknown): string =>
  typeof data === 'string' ? data : String(Object.values(data as object)[0])
