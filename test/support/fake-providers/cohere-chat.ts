import {
  createReceivedRequest,
  extractBase64,
  type FakeProvider,
  type ReceivedRequest,
  renderSse,
  type ScriptedAnswer,
  type ScriptedToolCall,
  splitInHalf,
  TOKENS,
} from './fake-provider.ts'

interface CoherePart {
  type: string
  text?: string
  thinking?: string
  image_url?: { url: string }
  document?: { data: unknown }
}
interface CohereMessage {
  role: string
  content?: string | CoherePart[]
  tool_calls?: { id: string; function: { name: string; arguments: string } }[]
  tool_plan?: string
  tool_call_id?: string
}

/** Cohere's chat, version 2. */
export const cohereChat: FakeProvider = {
  streamType: 'text/event-stream',
  readRequest(body) {
    const received = createReceivedRequest()
    for (const message of body.messages as CohereMessage[]) recordMessage(message, received)
    const choice = body.tool_choice as string | undefined
    received.tools = ((body.tools ?? []) as { function: { name: string } }[]).map(
      tool => tool.function.name,
    )
    received.choice =
      choice === undefined
        ? null
        : choice === 'REQUIRED' && received.tools.length === 1
          ? (received.tools[0] ?? null)
          : choice.toLowerCase()
    const format = body.response_format as { json_schema?: unknown; schema?: unknown } | undefined
    received.schema = format?.json_schema ?? format?.schema ?? null
    return received
  },
  renderAnswer: answer => ({
    id: 'c1',
    message: {
      role: 'assistant',
      content: renderContent(answer),
      ...(answer.calls ? { tool_calls: answer.calls.map(renderToolCall) } : {}),
    },
    finish_reason: FINISH[answer.finish],
    usage: USAGE,
  }),
  renderStream: answer =>
    renderSse(
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
        ...renderContent(answer).flatMap((part, index) => renderPartEvents(part, index)),
        ...(answer.calls ?? []).flatMap((call, index) => renderCallEvents(call, index)),
        { type: 'message-end', delta: { finish_reason: FINISH[answer.finish], usage: USAGE } },
      ],
      true,
    ),
  renderBrokenStream: text =>
    renderSse(
      [
        { type: 'message-start', id: 'c1', delta: { message: { role: 'assistant' } } },
        ...renderPartEvents({ type: 'text', text }, 0).slice(0, -1),
        { type: 'message-end', delta: { finish_reason: 'ERROR', error: 'internal' } },
      ],
      true,
    ),
  overloadedResponse: { status: 503, body: { id: 'e1', message: 'the model is overloaded' } },
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

const renderToolCall = ({ id, name, input }: ScriptedToolCall) => ({
  id,
  type: 'function',
  function: { name, arguments: input },
})

const renderContent = ({ text, thought }: ScriptedAnswer): CoherePart[] => [
  ...(thought ? [{ type: 'thinking', thinking: thought.text }] : []),
  ...(text ? [{ type: 'text', text }] : []),
]

function renderPartEvents(part: CoherePart, index: number): object[] {
  const field = part.type as 'text' | 'thinking'
  return [
    { type: 'content-start', index, delta: { message: { content: { type: field, [field]: '' } } } },
    ...splitInHalf(part[field] ?? '').map(piece => ({
      type: 'content-delta',
      index,
      delta: { message: { content: { [field]: piece } } },
    })),
    { type: 'content-end', index },
  ]
}

const renderCallEvents = (call: ScriptedToolCall, index: number): object[] => [
  {
    type: 'tool-call-start',
    index,
    delta: { message: { tool_calls: renderToolCall({ ...call, input: '' }) } },
  },
  ...splitInHalf(call.input).map(piece => ({
    type: 'tool-call-delta',
    index,
    delta: { message: { tool_calls: { function: { arguments: piece } } } },
  })),
  { type: 'tool-call-end', index },
]

// Text beside a tool call is the plan that led to it.
function recordMessage(
  { role, content = [], tool_plan, tool_calls, tool_call_id }: CohereMessage,
  received: ReceivedRequest,
): void {
  const parts: CoherePart[] =
    typeof content === 'string' ? [{ type: 'text', text: content }] : content
  const texts = parts.flatMap(
    part => part.text ?? (part.document ? readDocumentText(part.document.data) : []),
  )
  if (role === 'system') received.system += texts.join('')
  else if (role === 'tool') received.results.push({ id: tool_call_id ?? '', text: texts.join('') })
  else
    received.lines.push(
      ...[...texts, ...(tool_plan ? [tool_plan] : [])].map(text => `${role}: ${text}`),
    )
  for (const { image_url } of parts)
    if (image_url) received.images.push(extractBase64(image_url.url))
  for (const { id, function: fn } of tool_calls ?? [])
    received.calls.push({ id, name: fn.name, input: fn.arguments })
}

// A document is a string, or an object with a string member.
function readDocumentText(data: unknown): string {
  if (typeof data === 'string') return data
  const values = Object.values(data as object)
  return values.length === 1 && typeof values[0] === 'string' ? values[0] : JSON.stringify(data)
}
