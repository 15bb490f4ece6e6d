import type { Frame } from '../../../src/core/protocols/protocol.ts'
import { type Block, chunksOf, SIGNATURE, TOKENS, TOOL, type Voice } from '../speech.ts'

/**
 * Renders a stream of Amazon's Converse: each event is an object with one member, which names it.
 */
export const bedrockConverse: Voice = ({ thoughts, texts, inputs }) =>
  chunksOf(
    [{ messageStart: { role: 'assistant' } }],
    [
      block(
        0,
        thoughts.map(text => ({ reasoningContent: { text } })),
        { last: { reasoningContent: { signature: SIGNATURE } } },
      ),
      block(
        1,
        texts.map(text => ({ text })),
      ),
      block(
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
    frameOf,
  )

const USAGE = {
  inputTokens: TOKENS.input - TOKENS.cached,
  cacheReadInputTokens: TOKENS.cached,
  outputTokens: TOKENS.output,
  serverToolUsage: {},
  totalTokens: TOKENS.input + TOKENS.output,
}

function block(
  contentBlockIndex: number,
  deltas: object[],
  { start, last }: { start?: object; last?: object } = {},
): Block {
  const event = (delta: object) => ({ contentBlockDelta: { contentBlockIndex, delta } })
  return {
    open: start ? [{ contentBlockStart: { contentBlockIndex, start } }] : [],
    deltas: deltas.map(event),
    close: [...(last ? [event(last)] : []), { contentBlockStop: { contentBlockIndex } }],
  }
}

function frameOf(event: object): Frame {
  const [[name, payload] = ['', {}]] = Object.entries(event)
  return { event: name, data: JSON.stringify(payload) }
}
