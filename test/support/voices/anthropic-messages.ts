import { parseExact } from '../../../src/core/kernel/json.ts'
import { type Heard, halves, nothingHeard, type Said, sse, TOKENS, type Voice } from './voice.ts'

interface Block {
  type: string
  text?: string
  thinking?: string
  signature?: string
  id?: string
  name?: string
  input?: unknown
  tool_use_id?: string
  content?: string | Block[]
  source?: { data?: string; url?: string }
}

/** Anthropic's messages. */
export const anthropicMessages: Voice = {
  streamType: 'text/event-stream',
  heard(body) {
    const heard = nothingHeard()
    heard.system = blocksOf((body.system ?? []) as string | Block[])
      .flatMap(block => block.text ?? [])
      .join('')
    for (const { role, content } of body.messages as { role: string; content: string | Block[] }[])
      for (const block of blocksOf(content)) hear(role, block, heard)
    const format = (body.output_config as { format?: { schema: unknown } } | undefined)?.format
    const tools = (body.tools ?? []) as { name: string; input_schema: unknown }[]
    const choice = body.tool_choice as { type: string; name?: string } | undefined
    heard.tools = tools.map(tool => tool.name)
    heard.choice = choice
      ? (choice.name ?? (choice.type === 'any' ? 'required' : choice.type))
      : null
    heard.schema = format?.schema ?? tools.find(tool => tool.name === 'json')?.input_schema ?? null
    return heard
  },
  whole: said => ({
    ...HEAD,
    content: contentOf(said),
    stop_reason: STOP[said.finish],
    stop_sequence: null,
    usage: USAGE,
  }),
  stream: said =>
    sse(
      [
        START,
        { type: 'ping' },
        ...contentOf(said).flatMap((block, index) => streamed(block, index)),
        {
          type: 'message_delta',
          delta: { stop_reason: STOP[said.finish], stop_sequence: null },
          usage: { output_tokens: TOKENS.output },
        },
        { type: 'message_stop' },
      ],
      true,
    ),
  broken: text =>
    sse(
      [
        START,
        ...streamed({ type: 'text', text }, 0).slice(0, -1),
        { type: 'error', error: { type: 'api_error', message: 'Internal server error' } },
      ],
      true,
    ),
  overloaded: {
    status: 529,
    body: { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
  },
}

const USAGE = { input_tokens: TOKENS.input, output_tokens: TOKENS.output }
const HEAD = { id: 'msg_1', type: 'message', role: 'assistant', model: 'scripted' }
const START = {
  type: 'message_start',
  message: {
    ...HEAD,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: TOKENS.input, output_tokens: 1 },
  },
}
const STOP = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use', refusal: 'refusal' }

const contentOf = ({ text, thought, calls }: Said): Block[] => [
  ...(thought ? [{ type: 'thinking', thinking: thought.text, signature: thought.signature }] : []),
  ...(text ? [{ type: 'text', text }] : []),
  ...(calls ?? []).map(({ id, name, input }) => ({
    type: 'tool_use',
    id,
    name,
    input: parseExact(input),
  })),
]

function streamed(block: Block, index: number): object[] {
  const delta = (given: object) => ({ type: 'content_block_delta', index, delta: given })
  const between = {
    thinking: () => [
      ...halves(block.thinking ?? '').map(thinking => delta({ type: 'thinking_delta', thinking })),
      delta({ type: 'signature_delta', signature: block.signature }),
    ],
    text: () => halves(block.text ?? '').map(text => delta({ type: 'text_delta', text })),
    tool_use: () =>
      halves(JSON.stringify(block.input)).map(partial_json =>
        delta({ type: 'input_json_delta', partial_json }),
      ),
  }[block.type]
  const empty = {
    thinking: { thinking: '', signature: '' },
    text: { text: '' },
    tool_use: { input: {} },
  }[block.type]
  return [
    { type: 'content_block_start', index, content_block: { ...block, ...empty } },
    ...(between?.() ?? []),
    { type: 'content_block_stop', index },
  ]
}

const blocksOf = (content: string | Block[]): Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content

function hear(role: string, block: Block, heard: Heard): void {
  switch (block.type) {
    case 'text':
      heard.lines.push(`${role}: ${block.text}`)
      break
    case 'image':
      heard.images.push(block.source?.data ?? block.source?.url ?? '')
      break
    case 'thinking':
      heard.thoughts.push({ text: block.thinking ?? '', signature: block.signature ?? '' })
      break
    case 'tool_use':
      heard.calls.push({
        id: block.id ?? '',
        name: block.name ?? '',
        input: JSON.stringify(block.input),
      })
      break
    case 'tool_result':
      heard.results.push({
        id: block.tool_use_id ?? '',
        text: blocksOf(block.content ?? [])
          .flatMap(part => part.text ?? [])
          .join(''),
      })
      break
  }
}
