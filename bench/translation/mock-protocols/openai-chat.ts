import { type StreamRenderer, TOKENS, TOOL, toChunks, toUnnamedFrame } from '../model-output.ts'

/**
 * Renders a stream of OpenAI's chat completions, with `reasoning_content` as servers that think
 * send it.
 */
export const renderOpenaiChat: StreamRenderer = ({ thoughts, texts, inputs }) => [
  ...toChunks(
    [createChunk({ role: 'assistant', content: '', refusal: null })],
    [
      {
        open: [],
        deltas: thoughts.map(reasoning_content =>
          createChunk({ content: null, reasoning_content }),
        ),
        close: [],
      },
      { open: [], deltas: texts.map(content => createChunk({ content })), close: [] },
      {
        open: [CALL],
        deltas: inputs.map(text =>
          createChunk({ tool_calls: [{ index: 0, function: { arguments: text } }] }),
        ),
        close: [],
      },
    ],
    [
      createChunk({}, inputs.length > 0 ? 'tool_calls' : 'stop'),
      { ...HEAD, choices: [], usage: USAGE, obfuscation: 'BZ2h' },
    ],
    toUnnamedFrame,
  ),
  [{ event: null, data: '[DONE]' }],
]

const HEAD = {
  id: 'chatcmpl-D8Z5oo6uDh67AD85p73ksdT1KxhE0',
  object: 'chat.completion.chunk',
  created: 1_770_933_892,
  model: 'gpt-4.1-nano-2025-04-14',
  service_tier: 'default',
  system_fingerprint: 'fp_de604bd877',
}
const USAGE = {
  prompt_tokens: TOKENS.input,
  completion_tokens: TOKENS.output,
  total_tokens: TOKENS.input + TOKENS.output,
  prompt_tokens_details: { cached_tokens: TOKENS.cached, audio_tokens: 0 },
  completion_tokens_details: {
    reasoning_tokens: TOKENS.reasoning,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
}

const createChunk = (delta: object, finish_reason: string | null = null) => ({
  ...HEAD,
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
  usage: null,
  obfuscation: 'yhjoJbEF',
})

const CALL = createChunk({
  tool_calls: [
    { index: 0, id: TOOL.id, type: 'function', function: { name: TOOL.name, arguments: '' } },
  ],
})
