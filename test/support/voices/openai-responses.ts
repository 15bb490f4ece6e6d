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

interface Item {
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
export const openaiResponses: Voice = {
  streamType: 'text/event-stream',
  heard(body) {
    const heard = nothingHeard()
    heard.system = typeof body.instructions === 'string' ? body.instructions : ''
    for (const item of body.input as Item[]) hear(item, heard)
    const choice = body.tool_choice
    heard.tools = ((body.tools ?? []) as { name: string }[]).map(tool => tool.name)
    heard.choice =
      typeof choice === 'string'
        ? choice
        : ((choice as { name?: string } | undefined)?.name ?? null)
    heard.schema =
      (body.text as { format?: { schema?: unknown } } | undefined)?.format?.schema ?? null
    return heard
  },
  whole: said => response(said, outputOf(said)),
  stream(said) {
    const output = outputOf(said)
    const { status: _, ...created } = response(said, [])
    const ending =
      said.finish === 'length' || said.finish === 'refusal'
        ? 'response.incomplete'
        : 'response.completed'
    return numbered([
      { type: 'response.created', response: { ...created, status: 'in_progress', usage: null } },
      ...output.flatMap((item, output_index) => streamed(item, output_index)),
      { type: ending, response: response(said, output) },
    ])
  },
  broken: text =>
    numbered([
      {
        type: 'response.created',
        response: { id: 'resp_1', object: 'response', status: 'in_progress', output: [] },
      },
      ...streamed(message(text), 0).slice(0, 4),
      { type: 'error', code: 'server_error', message: 'The server had an error', param: null },
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

const response = ({ finish }: Said, output: object[]) => ({
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

const message = (text: string) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
})

const outputOf = ({ text, thought, calls }: Said): Output[] => [
  ...(thought
    ? [
        {
          type: 'reasoning',
          id: 'rs_1',
          summary: [{ type: 'summary_text', text: thought.text }],
          encrypted_content: thought.signature,
        },
      ]
    : []),
  ...(text ? [message(text)] : []),
  ...(calls ?? []).map((call, i) => callItem(call, i)),
]
type Output = { type: string; id: string } & Record<string, unknown>

const callItem = ({ id, name, input }: Call, i: number): Output => ({
  type: 'function_call',
  id: `fc_${i}`,
  call_id: id,
  name,
  arguments: input,
  status: 'completed',
})

function streamed(item: Output, output_index: number): object[] {
  const at = { item_id: item.id, output_index }
  const middle = {
    reasoning: () => summaryEvents(item, at),
    message: () => textEvents(item, at),
    function_call: () => argumentEvents(item, at),
  }[item.type]
  const empty = {
    reasoning: { summary: [], encrypted_content: null },
    message: { content: [], status: 'in_progress' },
    function_call: { arguments: '' },
  }[item.type]
  return [
    { type: 'response.output_item.added', output_index, item: { ...item, ...empty } },
    ...(middle?.() ?? []),
    { type: 'response.output_item.done', output_index, item },
  ]
}

function summaryEvents({ summary }: Output, at: object): object[] {
  const [{ text }] = summary as [{ text: string }]
  const place = { ...at, summary_index: 0 }
  return [
    {
      type: 'response.reasoning_summary_part.added',
      ...place,
      part: { type: 'summary_text', text: '' },
    },
    ...halves(text).map(delta => ({
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

function textEvents({ content }: Output, at: object): object[] {
  const [part] = content as [{ text: string }]
  const place = { ...at, content_index: 0 }
  return [
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...halves(part.text).map(delta => ({ type: 'response.output_text.delta', ...place, delta })),
    { type: 'response.output_text.done', ...place, text: part.text },
    { type: 'response.content_part.done', ...place, part },
  ]
}

const argumentEvents = (item: Output, at: object): object[] => [
  ...halves(String(item.arguments)).map(delta => ({
    type: 'response.function_call_arguments.delta',
    ...at,
    delta,
  })),
  { type: 'response.function_call_arguments.done', ...at, arguments: item.arguments },
]

const numbered = (events: object[]) =>
  sse(
    events.map((event, sequence_number) => ({ ...event, sequence_number })),
    true,
  )

function hear(item: Item, heard: Heard): void {
  switch (item.type ?? 'message') {
    case 'message':
      hearMessage(item, heard)
      break
    case 'function_call':
      heard.calls.push({
        id: item.call_id ?? '',
        name: item.name ?? '',
        input: item.arguments ?? '',
      })
      break
    case 'function_call_output':
      heard.results.push({ id: item.call_id ?? '', text: textOf(item.output) })
      break
    case 'reasoning':
      heard.thoughts.push({
        text: (item.summary ?? []).map(({ text }) => text).join(''),
        signature: item.encrypted_content ?? '',
      })
      break
  }
}

const textOf = (output: Item['output']) =>
  typeof output === 'string' ? output : (output ?? []).map(part => part.text ?? '').join('')

function hearMessage({ role = '', content = [] }: Item, heard: Heard): void {
  const parts = typeof content === 'string' ? [{ type: 'input_text', text: content }] : content
  const texts = parts.flatMap(part => part.text ?? [])
  if (role === 'system' || role === 'developer') heard.system += texts.join('')
  else heard.lines.push(...texts.map(text => `${role}: ${text}`))
  for (const part of parts)
    if ('image_url' in part && part.image_url) heard.images.push(base64Of(part.image_url))
}
