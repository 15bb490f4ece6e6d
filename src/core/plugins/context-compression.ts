import { type Static, Type } from '@sinclair/typebox'
import type { Model } from '../catalog/models.ts'
import type { FittedCall, Plugin } from '../inference/plugin.ts'
import type { PipelineStage } from '../inference/routing-metadata.ts'
import { closed, oneOf, optional } from '../kernel/schema-builders.ts'
import type { TextCall } from '../language/call.ts'
import { computePromptBound } from '../tokenizers/prompt.ts'
import { compressMessages, estimateTokens } from './context-compression/middle-out.ts'

const ContextCompression = Type.Object(
  {
    id: Type.Literal('context-compression'),
    enabled: Type.Optional(Type.Boolean()),
    engine: optional(oneOf('middle-out')),
  },
  closed,
)

/** The only engine: what is in the middle of a conversation is left out first. */
export interface CompressionOptions {
  engine: 'middle-out'
}

/**
 * The `context-compression` plugin: a conversation that is longer than the context of a model loses
 * its middle (wire reference C.4). Models with a small context use it unless it is switched off.
 */
export const contextCompression: Plugin<CompressionOptions> = {
  id: 'context-compression',
  schema: ContextCompression,
  readOptions(entry) {
    const { engine } = entry as Static<typeof ContextCompression>
    return { engine: engine ?? 'middle-out' }
  },
  fit(call, model, options) {
    const context = getContext(model)
    if (call.kind !== 'text' || context === null) return { call }
    return options || context <= SMALL_CONTEXT ? compress(call, model, context) : { call }
  },
  fitsUnasked: model => (getContext(model) ?? Infinity) <= SMALL_CONTEXT,
  rank(call, model, options) {
    const context = getContext(model)
    if (call.kind !== 'text' || context === null) return 0
    if (!options && context > SMALL_CONTEXT) return 0
    return Number(context < (estimateTokens(call) + getAnswerRoom(call, context)) / 2)
  },
}

/** Models with at most as many tokens of context use the plugin unasked. */
const SMALL_CONTEXT = 8_192

/** The model's largest context at a provider that can be called; null if it is not known. */
function getContext(model: Model): number | null {
  const known = contexts.get(model)
  if (known !== undefined) return known
  const configured = model.endpoints.filter(({ provider }) => provider.configured)
  const lengths = (configured.length > 0 ? configured : model.endpoints).map(
    ({ context_length }) => context_length,
  )
  const isKnown = lengths.length > 0 && lengths.every(length => length !== null)
  const context = isKnown ? Math.max(...(lengths as number[])) : null
  contexts.set(model, context)
  return context
}

/** Cached by model, because a model does not change. */
const contexts = new WeakMap<Model, number | null>()

/** The room that is left for an answer whose length the call does not bound. */
const ANSWER_TOKENS = 1_024

const getAnswerRoom = ({ params: { max_tokens } }: TextCall, context: number): number =>
  max_tokens ?? Math.min(ANSWER_TOKENS, Math.floor(context / 4))

/** Anthropic's models take no more messages (OpenRouter's guide, "Message Transforms"). */
const MOST_MESSAGES = 1_000

/** The share of the context that a prompt has to have, or else it is not cut: 400 says why. */
const LEAST_SHARE = 1 / 4

function compress(call: TextCall, model: Model, context: number): FittedCall<'text'> {
  const room = context - getAnswerRoom(call, context)
  const mostMessages = model.id.startsWith('anthropic/') ? MOST_MESSAGES : Infinity
  const isTooLong = exceeds(call, context - (call.params.max_tokens ?? 1))
  if (!isTooLong && call.messages.length <= mostMessages) return { call }
  if (room < context * LEAST_SHARE || isImageOnly(call)) return { call }
  const messages = compressMessages(call, {
    tokens: isTooLong ? room : Infinity,
    messages: mostMessages,
  })
  return messages === call.messages
    ? { call }
    : { call: { ...call, messages }, stage: buildStage(call, messages, context) }
}

/** Tells whether the prompt is longer. The bound is quick, and most prompts are within it. */
function exceeds(call: TextCall, tokens: number): boolean {
  const { text, audio, video } = computePromptBound(call)
  return text + audio + video > tokens && estimateTokens(call) > tokens
}

// A picture is made from all that is said about it.
const isImageOnly = ({ params: { modalities } }: TextCall) =>
  modalities?.every(modality => modality === 'image') ?? false

const buildStage = (
  call: TextCall,
  messages: TextCall['messages'],
  context_length: number,
): PipelineStage => ({
  type: 'context_compression',
  name: 'context-compression',
  summary: `The conversation was cut to fit ${context_length} tokens: ${messages.length} of ${call.messages.length} messages are left.`,
  data: {
    engine: 'middle-out',
    input_type: 'messages',
    original_count: call.messages.length,
    compressed_count: messages.length,
    original_tokens: estimateTokens(call),
    compressed_tokens: estimateTokens({ ...call, messages }),
  },
})
