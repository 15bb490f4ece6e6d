import {
  type Block,
  SIGNATURE,
  type StreamRenderer,
  TOKENS,
  TOOL,
  toChunks,
  toNamedFrame,
} from '../model-output.ts'

/** Renders a stream of Anthropic's messages. */
export const renderAnthropicMessages: StreamRenderer = ({ thoughts, texts, inputs }) =>
  toChunks(
    [START, { type: 'ping' }],
    [
      createBlock(
        0,
        { type: 'thinking', thinking: '', signature: '' },
        thoughts.map(toThinkingDelta),
        {
          type: 'signature_delta',
          signature: SIGNATURE,
        },
      ),
      createBlock(1, { type: 'text', text: '' }, texts.map(toTextDelta)),
      createBlock(
        2,
        { type: 'tool_use', id: TOOL.id, name: TOOL.name, input: {} },
        inputs.map(toInputDelta),
      ),
    ],
    [
      {
        type: 'message_delta',
        delta: { stop_reason: inputs.length > 0 ? 'tool_use' : 'end_turn', stop_sequence: null },
        usage: { ...USAGE, output_tokens: TOKENS.output },
      },
      { type: 'message_stop' },
    ],
    toNamedFrame,
  )

const USAGE = {
  input_tokens: TOKENS.input - TOKENS.cached,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: TOKENS.cached,
}
const START = {
  type: 'message_start',
  message: {
    model: 'claude-haiku-4-5-20251001',
    id: 'msg_01K2JbSUMYhez5RHoK9ZCj9U',
    type: 'message',
    role: 'assistant',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: {
      ...USAGE,
      cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
      output_tokens: 10,
      service_tier: 'standard',
    },
  },
}

const toThinkingDelta = (thinking: string) => ({ type: 'thinking_delta', thinking })
const toTextDelta = (text: string) => ({ type: 'text_delta', text })
const toInputDelta = (partial_json: string) => ({ type: 'input_json_delta', partial_json })

function createBlock(index: number, content_block: object, deltas: object[], last?: object): Block {
  const createEvent = (delta: object) => ({ type: 'content_block_delta', index, delta })
  return {
    open: [{ type: 'content_block_start', index, content_block }],
    deltas: deltas.map(createEvent),
    close: [...(last ? [createEvent(last)] : []), { type: 'content_block_stop', index }],
  }
}
