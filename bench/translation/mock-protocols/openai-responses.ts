import {
  type Block,
  SIGNATURE,
  type StreamRenderer,
  TOKENS,
  TOOL,
  toChunks,
  toNamedFrame,
} from '../model-output.ts'

/**
 * Renders a stream of OpenAI's responses: what comes in pieces is repeated at the end of its item,
 * and again at the end of the stream.
 */
export const renderOpenaiResponses: StreamRenderer = ({ thoughts, texts, inputs }) => {
  const items = [
    createReasoningItem(thoughts),
    createMessageItem(texts),
    createFunctionCallItem(inputs),
  ].filter(({ block }) => block.deltas.length > 0)
  const output = items.map(({ item }) => item)
  let sequence_number = 0
  return toChunks(
    [
      { type: 'response.created', response: createResponse('in_progress', []) },
      { type: 'response.in_progress', response: createResponse('in_progress', []) },
    ],
    items.map(({ block }) => block),
    [{ type: 'response.completed', response: createResponse('completed', output) }],
    event => toNamedFrame({ ...event, sequence_number: sequence_number++ }),
  )
}

const ID = '0ca3f598125653cf01693c1f22e2d08195b4275856d2c3bd9f'

const createResponse = (status: string, output: object[]) => ({
  id: `resp_${ID}`,
  object: 'response',
  created_at: 1_772_062_745,
  status,
  error: null,
  incomplete_details: null,
  model: 'gpt-5.3-codex',
  output,
  parallel_tool_calls: true,
  service_tier: 'default',
  usage: status === 'completed' ? USAGE : null,
})

const USAGE = {
  input_tokens: TOKENS.input,
  input_tokens_details: { cached_tokens: TOKENS.cached },
  output_tokens: TOKENS.output,
  output_tokens_details: { reasoning_tokens: TOKENS.reasoning },
  total_tokens: TOKENS.input + TOKENS.output,
}

interface Item {
  item: object
  block: Block
}

function createReasoningItem(thoughts: string[]): Item {
  const part = { type: 'summary_text', text: thoughts.join('') }
  const item = { id: `rs_${ID}`, type: 'reasoning', encrypted_content: SIGNATURE, summary: [part] }
  const position = { item_id: item.id, output_index: 0, summary_index: 0 }
  return toItem(item, { summary: [] }, 0, {
    open: [
      { type: 'response.reasoning_summary_part.added', ...position, part: { ...part, text: '' } },
    ],
    deltas: thoughts.map(delta => ({
      type: 'response.reasoning_summary_text.delta',
      ...position,
      delta,
      obfuscation: 'FdG7NTCB',
    })),
    close: [
      { type: 'response.reasoning_summary_text.done', ...position, text: part.text },
      { type: 'response.reasoning_summary_part.done', ...position, part },
    ],
  })
}

function createMessageItem(texts: string[]): Item {
  const part = { type: 'output_text', annotations: [], logprobs: [], text: texts.join('') }
  const item = {
    id: `msg_${ID}`,
    type: 'message',
    status: 'completed',
    content: [part],
    role: 'assistant',
  }
  const position = { item_id: item.id, output_index: 1, content_index: 0 }
  return toItem(item, { status: 'in_progress', content: [] }, 1, {
    open: [{ type: 'response.content_part.added', ...position, part: { ...part, text: '' } }],
    deltas: texts.map(delta => ({
      type: 'response.output_text.delta',
      ...position,
      delta,
      logprobs: [],
      obfuscation: 'hqHnUp5jX',
    })),
    close: [
      { type: 'response.output_text.done', ...position, logprobs: [], text: part.text },
      { type: 'response.content_part.done', ...position, part },
    ],
  })
}

function createFunctionCallItem(inputs: string[]): Item {
  const item = {
    id: `fc_${ID}`,
    type: 'function_call',
    status: 'completed',
    arguments: inputs.join(''),
    call_id: TOOL.id,
    name: TOOL.name,
  }
  const position = { item_id: item.id, output_index: 2 }
  return toItem(item, { status: 'in_progress', arguments: '' }, 2, {
    open: [],
    deltas: inputs.map(delta => ({
      type: 'response.function_call_arguments.delta',
      ...position,
      delta,
      obfuscation: 'f4XrgYSK',
    })),
    close: [
      { type: 'response.function_call_arguments.done', ...position, arguments: item.arguments },
    ],
  })
}

const toItem = (
  item: object,
  empty: object,
  output_index: number,
  { open, deltas, close }: Block,
): Item => ({
  item,
  block: {
    open: [
      { type: 'response.output_item.added', output_index, item: { ...item, ...empty } },
      ...open,
    ],
    deltas,
    close: [...close, { type: 'response.output_item.done', output_index, item }],
  },
})
