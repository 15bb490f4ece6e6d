import { parseExact } from '../../../src/base/json.ts'
import {
  createReceivedRequest,
  type FakeProvider,
  type ReceivedRequest,
  renderSse,
  type ScriptedAnswer,
  splitInHalf,
  TOKENS,
} from './fake-provider.ts'

interface AnthropicBlock {
  type: string
  text?: string
  thinking?: string
  signature?: string
  id?: string
  name?: string
  input?: unknown
  tool_use_id?: string
  content?: string | AnthropicBlock[]
  source?: { data?: string; url?: string }
}

/** Anthropic's messages. */
export const anthropicMessages: FakeProvider = {
  streamType: 'text/event-stream',
  readRequest(body) {
    const received = createReceivedRequest()
    received.system = listBlocks((body.system ?? []) as string | AnthropicBlock[])
      .flatMap(block => block.text ?? [])
      .join('')
    for (const { role, content } of body.messages as {
      role: string
      content: string | AnthropicBlock[]
    }[])
      for (const block of listBlocks(content)) recordBlock(role, block, received)
    const format = (body.output_config as { format?: { schema: unknown } } | undefined)?.format
    const tools = (body.tools ?? []) as { name: string; input_schema: unknown }[]
    const choice = body.tool_choice as { type: string; name?: string } | undefined
    received.tools = tools.map(tool => tool.name)
    received.choice = choice
      ? (choice.name ?? (choice.type === 'any' ? 'required' : choice.type))
      : null
    received.schema =
      format?.schema ?? tools.find(tool => tool.name === 'json')?.input_schema ?? null
    return received
  },
  renderAnswer: answer => ({
    ...HEAD,
    content: renderContent(answer),
    stop_reason: STOP[answer.finish],
    stop_sequence: null,
    usage: USAGE,
  }),
  renderStream: answer =>
    renderSse(
      [
        START,
        { type: 'ping' },
        ...renderContent(answer).flatMap((block, index) => renderBlockEvents(block, index)),
        {
          type: 'message_delta',
          delta: { stop_reason: STOP[answer.finish], stop_sequence: null },
          usage: { output_tokens: TOKENS.output },
        },
        { type: 'message_stop' },
      ],
      true,
    ),
  renderBrokenStream: text =>
    renderSse(
      [
        START,
        ...renderBlockEvents({ type: 'text', text }, 0).slice(0, -1),
        { type: 'error', error: { type: 'api_error', message: 'Internal server error' } },
      ],
      true,
    ),
  overloadedResponse: {
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

const renderContent = ({ text, thought, calls }: ScriptedAnswer): AnthropicBlock[] => [
  ...(thought ? [{ type: 'thinking', thinking: thought.text, signature: thought.signature }] : []),
  ...(text ? [{ type: 'text', text }] : []),
  ...(calls ?? []).map(({ id, name, input }) => ({
    type: 'tool_use',
    id,
    name,
    input: parseExact(input),
  })),
]

function renderBlockEvents(block: AnthropicBlock, index: number): object[] {
  const delta = (given: object) => ({ type: 'content_block_delta', index, delta: given })
  const between = {
    thinking: () => [
      ...splitInHalf(block.thinking ?? '').map(thinking =>
        delta({ type: 'thinking_delta', thinking }),
      ),
      delta({ type: 'signature_delta', signature: block.signature }),
    ],
    text: () => splitInHalf(block.text ?? '').map(text => delta({ type: 'text_delta', text })),
    tool_use: () =>
      splitInHalf(JSON.stringify(block.input)).map(partial_json =>
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

const listBlocks = (content: string | AnthropicBlock[]): AnthropicBlock[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content

function recordBlock(role: string, block: AnthropicBlock, received: ReceivedRequest): void {
  switch (block.type) {
    case 'text':
      received.lines.push(`${role}: ${block.text}`)
      break
    case 'image':
      received.images.push(block.source?.data ?? block.source?.url ?? '')
      break
    case 'thinking':
      received.thoughts.push({ text: block.thinking ?? '', signature: block.signature ?? '' })
      break
    case 'tool_use':
      received.calls.push({
        id: block.id ?? '',
        name: block.name ?? '',
        input: JSON.stringify(block.input),
      })
      break
    case 'tool_result':
      received.results.push({
        id: block.tool_use_id ?? '',
        text: listBlocks(block.content ?? [])
          .flatMap(part => part.text ?? [])
          .join(''),
      })
      break
  }
}
