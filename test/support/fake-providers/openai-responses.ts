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

interface ResponsesTool {
  type?: string
  name?: string
  tools?: ResponsesTool[]
}

interface ResponsesItem {
  tools?: ResponsesTool[]
  type?: string
  role?: string
  content?: string | { type: string; text?: string; image_url?: string }[]
  call_id?: string
  name?: string
  arguments?: string
  output?: string | { text?: string }[]
  summary?: { text: string }[]
  encrypted_content?: string
}

/** OpenAI's responses. */
export const openaiResponses: FakeProvider = {
  streamType: 'text/event-stream',
  readRequest(body) {
    const received = createReceivedRequest()
    received.system = typeof body.instructions === 'string' ? body.instructions : ''
    received.tools = ((body.tools ?? []) as ResponsesTool[]).flatMap(listNames)
    for (const item of body.input as ResponsesItem[]) recordItem(item, received)
    const choice = body.tool_choice
    received.choice =
      typeof choice === 'string'
        ? choice
        : ((choice as { name?: string } | undefined)?.name ?? null)
    received.schema =
      (body.text as { format?: { schema?: unknown } } | undefined)?.format?.schema ?? null
    return received
  },
  renderAnswer: answer => renderResponse(answer, renderOutput(answer)),
  renderStream(answer) {
    const output = renderOutput(answer)
    const { status: _, ...created } = renderResponse(answer, [])
    const ending =
      answer.finish === 'length' || answer.finish === 'refusal'
        ? 'response.incomplete'
        : 'response.completed'
    return renderNumberedSse([
      { type: 'response.created', response: { ...created, status: 'in_progress', usage: null } },
      ...output.flatMap((item, output_index) => renderItemEvents(item, output_index)),
      { type: ending, response: renderResponse(answer, output) },
    ])
  },
  renderBrokenStream: text =>
    renderNumberedSse([
      {
        type: 'response.created',
        response: { id: 'resp_1', object: 'response', status: 'in_progress', output: [] },
      },
      ...renderItemEvents(renderMessage(text), 0).slice(0, 4),
      { type: 'error', code: 'server_error', message: 'The server had an error', param: null },
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

const renderResponse = ({ finish }: ScriptedAnswer, output: object[]) => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1_770_000_000,
  model: 'scripted',
  status: finish === 'length' || finish === 'refusal' ? 'incomplete' : 'completed',
  incomplete_details:
    finish === 'length'
      ? { reason: 'max_output_tokens' }
      : finish === 'refusal'
        ? { reason: 'content_filter' }
        : null,
  error: null,
  output,
  usage: {
    input_tokens: TOKENS.input,
    output_tokens: TOKENS.output,
    total_tokens: TOKENS.input + TOKENS.output,
  },
})

const renderMessage = (text: string) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
})

const renderOutput = ({ text, thought, calls }: ScriptedAnswer): OutputItem[] => [
  ...(thought
    ? [
        {
          type: 'reasoning',
          // Clients keep one item of each id.
          id: `rs_${Bun.hash(thought.signature).toString(36)}`,
          summary: [{ type: 'summary_text', text: thought.text }],
          encrypted_content: thought.signature,
        },
      ]
    : []),
  ...(text ? [renderMessage(text)] : []),
  ...(calls ?? []).map((call, i) => renderCallItem(call, i)),
]
type OutputItem = { type: string; id: string } & Record<string, unknown>

const renderCallItem = (
  { id, name, input, namespace, isCustom }: ScriptedToolCall,
  i: number,
): OutputItem => ({
  type: isCustom ? 'custom_tool_call' : 'function_call',
  id: `${isCustom ? 'ctc' : 'fc'}_${i}`,
  call_id: id,
  name,
  ...(namespace === undefined ? {} : { namespace }),
  ...(isCustom ? { input } : { arguments: input }),
  status: 'completed',
})

function renderItemEvents(item: OutputItem, output_index: number): object[] {
  const at = { item_id: item.id, output_index }
  const middle = {
    reasoning: () => renderSummaryEvents(item, at),
    message: () => renderTextEvents(item, at),
    function_call: () => renderArgumentEvents(item, at),
    custom_tool_call: () => renderInputEvents(item, at),
  }[item.type]
  const empty = {
    reasoning: { summary: [], encrypted_content: null },
    message: { content: [], status: 'in_progress' },
    function_call: { arguments: '' },
    custom_tool_call: { input: '' },
  }[item.type]
  return [
    { type: 'response.output_item.added', output_index, item: { ...item, ...empty } },
    ...(middle?.() ?? []),
    { type: 'response.output_item.done', output_index, item },
  ]
}

function renderSummaryEvents({ summary }: OutputItem, at: object): object[] {
  const [{ text }] = summary as [{ text: string }]
  const place = { ...at, summary_index: 0 }
  return [
    {
      type: 'response.reasoning_summary_part.added',
      ...place,
      part: { type: 'summary_text', text: '' },
    },
    ...splitInHalf(text).map(delta => ({
      type: 'response.reasoning_summary_text.delta',
      ...place,
      delta,
    })),
    { type: 'response.reasoning_summary_text.done', ...place, text },
    {
      type: 'response.reasoning_summary_part.done',
      ...place,
      part: { type: 'summary_text', text },
    },
  ]
}

function renderTextEvents({ content }: OutputItem, at: object): object[] {
  const [part] = content as [{ text: string }]
  const place = { ...at, content_index: 0 }
  return [
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...splitInHalf(part.text).map(delta => ({
      type: 'response.output_text.delta',
      ...place,
      delta,
    })),
    { type: 'response.output_text.done', ...place, text: part.text },
    { type: 'response.content_part.done', ...place, part },
  ]
}

const renderArgumentEvents = (item: OutputItem, at: object): object[] => [
  ...splitInHalf(String(item.arguments)).map(delta => ({
    type: 'response.function_call_arguments.delta',
    ...at,
    delta,
  })),
  { type: 'response.function_call_arguments.done', ...at, arguments: item.arguments },
]

const renderInputEvents = (item: OutputItem, at: object): object[] => [
  ...splitInHalf(String(item.input)).map(delta => ({
    type: 'response.custom_tool_call_input.delta',
    ...at,
    delta,
  })),
  { type: 'response.custom_tool_call_input.done', ...at, input: item.input },
]

const renderNumberedSse = (events: object[]) =>
  renderSse(
    events.map((event, sequence_number) => ({ ...event, sequence_number })),
    true,
  )

function recordItem(item: ResponsesItem, received: ReceivedRequest): void {
  switch (item.type ?? 'message') {
    case 'message':
      recordMessage(item, received)
      break
    case 'function_call':
      received.calls.push({
        id: item.call_id ?? '',
        name: item.name ?? '',
        input: item.arguments ?? '',
      })
      break
    case 'function_call_output':
    case 'custom_tool_call_output':
      received.results.push({ id: item.call_id ?? '', text: readText(item.output) })
      break
    case 'additional_tools':
      received.tools.push(...(item.tools ?? []).flatMap(listNames))
      break
    case 'reasoning':
      received.thoughts.push({
        text: (item.summary ?? []).map(({ text }) => text).join(''),
        signature: item.encrypted_content ?? '',
      })
      break
  }
}

/**
 * Lists the name of a tool, or of those in a namespace, as a provider without them knows them. A tool
 * of the provider's own has its type in brackets.
 */
const listNames = ({ type = '', name = `<${type}>`, tools = [] }: ResponsesTool): string[] =>
  type === 'namespace' ? tools.flatMap(listNames).map(member => `${name}__${member}`) : [name]

const readText = (output: ResponsesItem['output']) =>
  typeof output === 'string' ? output : (output ?? []).map(part => part.text ?? '').join('')

function recordMessage(
  { role = '', content = [] }: ResponsesItem,
  received: ReceivedRequest,
): void {
  const parts = typeof content === 'string' ? [{ type: 'input_text', text: content }] : content
  const texts = parts.flatMap(part => part.text ?? [])
  if (role === 'system' || role === 'developer') received.system += texts.join('')
  else received.lines.push(...texts.map(text => `${role}: ${text}`))
  for (const part of parts)
    if ('image_url' in part && part.image_url) received.images.push(extractBase64(part.image_url))
}
