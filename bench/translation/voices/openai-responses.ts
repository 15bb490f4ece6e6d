import { type Block, chunksOf, named, SIGNATURE, TOKENS, TOOL, type Voice } from '../speech.ts'

/**
 * Renders a stream of OpenAI's responses: what comes in pieces is repeated at the end of its item,
 * and again at the end of the stream.
 */
export const openaiResponses: Voice = ({ thoughts, texts, inputs }) => {
  const items = [reasoning(thoughts), message(texts), functionCall(inputs)].filter(
    ({ block }) => block.deltas.length > 0,
  )
  const output = items.map(({ item }) => item)
  let sequence_number = 0
  return chunksOf(
    [
      { type: 'response.created', response: response('in_progress', []) },
      { type: 'response.in_progress', response: response('in_progress', []) },
    ],
    items.map(({ block }) => block),
    [{ type: 'response.completed', response: response('completed', output) }],
    event => named({ ...event, sequence_number: sequence_number++ }),
  )
}

const ID = '0ca3f598125653cf01693c1f22e2d08195b4275856d2c3bd9f'

const response = (status: string, output: object[]) => ({
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

function reasoning(thoughts: string[]): Item {
  const part = { type: 'summary_text', text: thoughts.join('') }
  const item = { id: `rs_${ID}`, type: 'reasoning', encrypted_content: SIGNATURE, summary: [part] }
  const place = { item_id: item.id, output_index: 0, summary_index: 0 }
  return itemOf(item, { summary: [] }, 0, {
    open: [
      { type: 'response.reasoning_summary_part.added', ...place, part: { ...part, text: '' } },
    ],
    deltas: thoughts.map(delta => ({
      type: 'response.reasoning_summary_text.delta',
      ...place,
      delta,
      obfuscation: 'FdG7NTCB',
    })),
    close: [
      { type: 'response.reasoning_summary_text.done', ...place, text: part.text },
      { type: 'response.reasoning_summary_part.done', ...place, part },
    ],
  })
}

function message(texts: string[]): Item {
  const part = { type: 'output_text', annotations: [], logprobs: [], text: texts.join('') }
  const item = {
    id: `msg_${ID}`,
    type: 'message',
    status: 'completed',
    content: [part],
    role: 'assistant',
  }
  const place = { item_id: item.id, output_index: 1, content_index: 0 }
  return itemOf(item, { status: 'in_progress', content: [] }, 1, {
    open: [{ type: 'response.content_part.added', ...place, part: { ...part, text: '' } }],
    deltas: texts.map(delta => ({
      type: 'response.output_text.delta',
      ...place,
      delta,
      logprobs: [],
      obfuscation: 'hqHnUp5jX',
    })),
    close: [
      { type: 'response.output_text.done', ...place, logprobs: [], text: part.text },
      { type: 'response.content_part.done', ...place, part },
    ],
  })
}

function functionCall(inputs: string[]): Item {
  const item = {
    id: `fc_${ID}`,
    type: 'function_call',
    status: 'completed',
    arguments: inputs.join(''),
    call_id: TOOL.id,
    name: TOOL.name,
  }
  const place = { item_id: item.id, output_index: 2 }
  return itemOf(item, { status: 'in_progress', arguments: '' }, 2, {
    open: [],
    deltas: inputs.map(delta => ({
      type: 'response.function_call_arguments.delta',
      ...place,
      delta,
      obfuscation: 'f4XrgYSK',
    })),
    close: [{ type: 'response.function_call_arguments.done', ...place, arguments: item.arguments }],
  })
}

const itemOf = (
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
