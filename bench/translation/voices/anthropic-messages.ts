import { type Block, chunksOf, named, SIGNATURE, TOKENS, TOOL, type Voice } from '../speech.ts'

/** Renders a stream of Anthropic's messages. */
export const anthropicMessages: Voice = ({ thoughts, texts, inputs }) =>
  chunksOf(
    [START, { type: 'ping' }],
    [
      block(0, { type: 'thinking', thinking: '', signature: '' }, thoughts.map(thinkingDelta), {
        type: 'signature_delta',
        signature: SIGNATURE,
      }),
      block(1, { type: 'text', text: '' }, texts.map(textDelta)),
      block(
        2,
        { type: 'tool_use', id: TOOL.id, name: TOOL.name, input: {} },
        inputs.map(inputDelta),
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
    named,
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

const thinkingDelta = (thinking: string) => ({ type: 'thinking_delta', thinking })
const textDelta = (text: string) => ({ type: 'text_delta', text })
const inputDelta = (partial_json: string) => ({ type: 'input_json_delta', partial_json })

function block(index: number, content_block: object, deltas: object[], last?: object): Block {
  const event = (delta: object) => ({ type: 'content_block_delta', index, delta })
  return {
    open: [{ type: 'content_block_start', index, content_block }],
    deltas: deltas.map(event),
    close: [...(last ? [event(last)] : []), { type: 'content_block_stop', index }],
  }
}
