import type { Static } from '@sinclair/typebox'
import type { PipelineStage } from '../../engine/plan/candidates.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message } from '../../language/message.ts'
import type { Model } from '../../resources/models/catalog.ts'
import { ContextCompression } from '../../translation/dialects/plugin-entries.ts'
import { boundTokens, computePromptBound } from '../../translation/tokenizers/prompt.ts'
import { estimateByRuleOfThumb } from '../../translation/tokenizers/rule-of-thumb.ts'
import type { FittedCall, Plugin } from '../plugin.ts'
import { cutMarkedMiddle } from '../tools/untrusted-text.ts'

/** The most that may be left of a conversation. */
interface Room {
  tokens: number
  messages: number
}

const estimates = new WeakMap<TextCall['messages'], number>()

/** Estimates the tokens of a prompt with its tools. Once for each conversation. */
export function estimateTokens(call: TextCall): number {
  const known = estimates.get(call.messages)
  if (known !== undefined) return known
  const { text, audio, video } = computePromptBound(call)
  const bound = computePromptBound({ ...call, messages: call.messages.map(dropTexts) })
  const texts = call.messages.flatMap(({ blocks }) => blocks.flatMap(getText))
  const estimate = Math.min(bound.text + estimateByRuleOfThumb(texts), text) + audio + video
  estimates.set(call.messages, estimate)
  return estimate
}

const dropTexts = (message: Message): Message => ({
  ...message,
  blocks: message.blocks.filter(block => getText(block).length === 0),
})

function getText(block: Block): string[] {
  if (block.type === 'tool-call') return [`${block.name} ${block.input}`]
  return 'text' in block && block.text !== null ? [block.text] : []
}

/**
 * Leaves out messages in the middle of a conversation, so that half of what is left is its
 * beginning and half its end. Instructions at the beginning and the last message stay. A call of
 * tools stays with its results, or goes with them. If that is not enough, the middles of the longest
 * texts are cut. Returns the messages themselves if all of them fit.
 */
export function compressMessages(call: TextCall, room: Room): Message[] {
  const units = listUnits(call)
  const pinned = units.findIndex(({ isInstruction }) => !isInstruction)
  const start = pinned === -1 ? units.length : pinned
  const last = units.slice(Math.max(start, units.length - 1))
  const fixed = [...units.slice(0, start), ...last]
  const free = units.slice(start, units.length - last.length)
  const left = subtract({ ...room, tokens: room.tokens - estimateTools(call) }, fixed)
  const kept = keepEnds(free, left)
  const messages = [...units.slice(0, start), ...kept, ...last].flatMap(unit => unit.messages)
  const all = messages.length === call.messages.length ? call.messages : messages
  return cutTexts({ ...call, messages: all }, room.tokens)
}

/** Messages that stay together. */
interface Unit {
  messages: Message[]
  tokens: number
  isInstruction: boolean
}

function listUnits({ messages }: TextCall): Unit[] {
  const units: Unit[] = []
  for (const message of messages) {
    const unit = units.at(-1)
    const tokens = estimateMessage(message)
    if (unit && isToolResult(message) && unit.messages.some(hasToolMessages)) {
      unit.messages.push(message)
      unit.tokens += tokens
    } else units.push({ messages: [message], tokens, isInstruction: isInstruction(message) })
  }
  return units
}

const isInstruction = ({ role }: Message) => role === 'system' || role === 'developer'
const isToolResult = ({ role }: Message) => role === 'tool'
const hasToolMessages = (message: Message) =>
  isToolResult(message) || message.blocks.some(({ type }) => type === 'tool-call')

const estimateMessage = (message: Message) => {
  const { text, audio, video } = computePromptBound({
    messages: [dropTexts(message)],
    tools: [],
  })
  return text + audio + video + estimateByRuleOfThumb(message.blocks.flatMap(getText))
}

const estimateTools = ({ tools }: TextCall) =>
  tools.length > 0 ? boundTokens(JSON.stringify(tools)) : 0

const subtract = (room: Room, units: Unit[]): Room => ({
  tokens: room.tokens - units.reduce((sum, { tokens }) => sum + tokens, 0),
  messages: room.messages - units.reduce((sum, { messages }) => sum + messages.length, 0),
})

const fits = (unit: Unit, { tokens, messages }: Room) =>
  unit.tokens <= tokens && unit.messages.length <= messages

/** Keeps units at both ends: half of the room for the first, and what is left for the last. */
function keepEnds(units: Unit[], room: Room): Unit[] {
  const half = { tokens: room.tokens / 2, messages: Math.floor(room.messages / 2) }
  const head = takeWhileFits(units, half)
  const rest = units.slice(head.length)
  const tail = takeWhileFits(rest.toReversed(), subtract(room, head)).toReversed()
  const middle = rest.slice(0, rest.length - tail.length)
  return [...head, ...takeWhileFits(middle, subtract(room, [...head, ...tail])), ...tail]
}

function takeWhileFits(units: Unit[], room: Room): Unit[] {
  const taken: Unit[] = []
  let left = room
  for (const unit of units) {
    if (!fits(unit, left)) break
    taken.push(unit)
    left = subtract(left, [unit])
  }
  return taken
}

const GAP = '\n[…]\n'

/** A shorter text is not cut, in characters. */
const LEAST_TEXT = 200

/** How often texts are cut until the estimate fits. */
const MOST_ROUNDS = 8

/** Cuts the middles of the longest texts until the conversation fits. */
function cutTexts(call: TextCall, tokens: number): Message[] {
  let { messages } = call
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const estimate = estimateTokens({ ...call, messages })
    if (estimate <= tokens) return messages
    const lengths = messages.flatMap(({ blocks }) => blocks.flatMap(getCuttable))
    const all = lengths.reduce((sum, length) => sum + length, 0)
    const share = Math.max(1 - (estimate - tokens) / Math.max(estimate, 1), 0.02) * 0.98
    const most = findLongest(lengths, all * share)
    messages = messages.map(message => cutMessage(message, most))
  }
  return messages
}

const getCuttable = (block: Block): number[] => (block.type === 'text' ? [block.text.length] : [])

/** Finds the length to which the longest texts are cut so that all of them come to `total`. */
function findLongest(lengths: number[], total: number): number {
  const sorted = lengths.toSorted((a, b) => a - b)
  let left = total
  for (const [i, length] of sorted.entries()) {
    const share = left / (sorted.length - i)
    if (length > share) return Math.max(Math.floor(share), LEAST_TEXT)
    left -= length
  }
  return Number.POSITIVE_INFINITY
}

function cutMessage(message: Message, most: number): Message {
  if (!message.blocks.some(block => block.type === 'text' && block.text.length > most))
    return message
  return {
    ...message,
    blocks: message.blocks.map(block =>
      block.type === 'text' && block.text.length > most
        ? { ...block, text: cutMarkedMiddle(block.text, most, GAP) }
        : block,
    ),
  }
}

/** The only engine: what is in the middle of a conversation is left out first. */
interface CompressionOptions {
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
