import type { Frame } from '../../../src/translation/protocols/protocol.ts'
import {
  type Block,
  SIGNATURE,
  type StreamRenderer,
  TOKENS,
  TOOL,
  toChunks,
} from '../model-output.ts'

/**
 * Renders a stream of Amazon's Converse: each event is an object with one member, which names it.
 */
export const renderBedrockConverse: StreamRenderer = ({ thoughts, texts, inputs }) =>
  toChunks(
    [{ messageStart: { role: 'assistant' } }],
    [
      createBlock(
        0,
        thoughts.map(text => ({ reasoningContent: { text } })),
        { last: { reasoningContent: { signature: SIGNATURE } } },
      ),
      createBlock(
        1,
        texts.map(text => ({ text })),
      ),
      createBlock(
        2,
        inputs.map(text => ({ toolUse: { input: text } })),
        { start: { toolUse: { toolUseId: TOOL.id, name: TOOL.name } } },
      ),
    ],
    [
      {
        messageStop: {
          additionalModelResponseFields: { delta: { stop_sequence: null } },
          stopReason: inputs.length > 0 ? 'tool_use' : 'end_turn',
        },
      },
      { metadata: { metrics: { latencyMs: 2281 }, usage: USAGE } },
    ],
    toFrame,
  )

const USAGE = {
  inputTokens: TOKENS.input - TOKENS.cached,
  cacheReadInputTokens: TOKENS.cached,
  outputTokens: TOKENS.output,
  serverToolUsage: {},
  totalTokens: TOKENS.input + TOKENS.output,
}

function createBlock(
  contentBlockIndex: number,
  deltas: object[],
  { start, last }: { start?: object; last?: object } = {},
): Block {
  const createEvent = (delta: object) => ({ contentBlockDelta: { contentBlockIndex, delta } })
  return {
    open: start ? [{ contentBlockStart: { contentBlockIndex, start } }] : [],
    deltas: deltas.map(createEvent),
    close: [...(last ? [createEvent(last)] : []), { contentBlockStop: { contentBlockIndex } }],
  }
}

function toFrame(event: object): Frame {
  const [[name, payload] = ['', {}]] = Object.entries(event)
  return { event: name, data: JSON.stringify(payload) }
}
