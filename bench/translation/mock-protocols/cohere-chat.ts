import {
  type Block,
  type StreamRenderer,
  TOKENS,
  TOOL,
  toChunks,
  toNamedFrame,
} from '../model-output.ts'

/** Renders a stream of Cohere's chat, version 2. */
export const renderCohereChat: StreamRenderer = ({ thoughts, texts, inputs }) =>
  toChunks(
    [
      {
        id: '2941521a-b87a-45f6-9b0d-235fd66c3025',
        type: 'message-start',
        delta: {
          message: { role: 'assistant', content: [], tool_plan: '', tool_calls: [], citations: [] },
        },
      },
    ],
    [
      createContentBlock(0, 'thinking', thoughts),
      createContentBlock(1, 'text', texts),
      createToolCallBlock(inputs),
    ],
    [
      {
        type: 'message-end',
        delta: { finish_reason: inputs.length > 0 ? 'TOOL_CALL' : 'COMPLETE', usage: USAGE },
      },
    ],
    toNamedFrame,
  )

const USAGE = {
  billed_units: { input_tokens: TOKENS.input, output_tokens: TOKENS.output },
  tokens: { input_tokens: TOKENS.input, output_tokens: TOKENS.output },
  cached_tokens: TOKENS.cached,
}

const createContentBlock = (index: number, kind: 'text' | 'thinking', pieces: string[]): Block => ({
  open: [
    { type: 'content-start', index, delta: { message: { content: { type: kind, [kind]: '' } } } },
  ],
  deltas: pieces.map(piece => ({
    type: 'content-delta',
    index,
    delta: { message: { content: { [kind]: piece } } },
  })),
  close: [{ type: 'content-end', index }],
})

function createToolCallBlock(inputs: string[]): Block {
  const createEvent = (type: string, tool_calls: object) => ({
    type,
    index: 0,
    delta: { message: { tool_calls } },
  })
  return {
    open: [
      createEvent('tool-call-start', {
        id: TOOL.id,
        type: 'function',
        function: { name: TOOL.name, arguments: '' },
      }),
    ],
    deltas: inputs.map(text => createEvent('tool-call-delta', { function: { arguments: text } })),
    close: [{ type: 'tool-call-end', index: 0 }],
  }
}
