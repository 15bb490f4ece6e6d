import type { TextCall } from '../../../language/call.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'

/**
 * The models that sign or encrypt their thoughts in each format. Only they take them back: all
 * others refuse the conversation for a signature that they did not make (translation traps 93–97).
 */
const MAKERS: [format: RegExp, models: RegExp][] = [
  [/^anthropic-claude-/, /^anthropic\/|claude/i],
  [/^google-gemini-/, /^google\/|gemini/i],
  [/^((azure|bedrock)-)?openai-responses-/, /^openai\/|gpt|codex/i],
  [/^(bedrock-)?xai-responses-/, /^x-ai\/|grok/i],
  [/^meta-responses-/, /^meta(-llama)?\//i],
]

/** The authors of models that are known to make no thoughts but their own. */
const KNOWN_AUTHOR =
  /^(anthropic|google|openai|x-ai|meta|meta-llama|deepseek|mistralai|qwen|moonshotai|z-ai|minimax|cohere|amazon|nvidia|microsoft|xiaomi)\//

/**
 * Returns the call without thoughts that another model than the endpoint's has signed. Of a model
 * whose author is not known, as of a relay, nothing is: what it gets it may have made.
 */
export function dropForeignThoughts(call: TextCall, endpoint: Endpoint): TextCall {
  if (!KNOWN_AUTHOR.test(endpoint.model)) return call
  const names = `${endpoint.model} ${endpoint.upstreamModel}`
  const isForeign = ({ format }: ReasoningDetail): boolean => {
    const maker = MAKERS.find(([pattern]) => pattern.test(String(format)))
    return maker !== undefined && !maker[1].test(names)
  }
  if (!call.messages.some(({ blocks }) => blocks.some(hasSome(isForeign)))) return call
  return { ...call, messages: call.messages.map(message => dropIn(message, isForeign)) }
}

type IsForeign = (detail: ReasoningDetail) => boolean

const hasSome = (isForeign: IsForeign) => (block: Block) =>
  block.type === 'reasoning' && (block.details?.some(isForeign) ?? false)

// What was thought may stay where words go back: it is a text as any other.
const dropIn = (message: Message, isForeign: IsForeign): Message => ({
  ...message,
  blocks: message.blocks.map(block => {
    if (block.type !== 'reasoning' || !block.details) return block
    const own = block.details.filter(detail => !isForeign(detail))
    return { ...block, details: own.length > 0 ? own : null }
  }),
})
