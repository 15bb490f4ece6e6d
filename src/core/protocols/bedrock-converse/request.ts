import type { Endpoint } from '../../catalog/models.ts'
import { invalid } from '../../errors.ts'
import { isObject, type Json } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'
import { capabilitiesOf } from '../anthropic-messages/capabilities.ts'
import { begunByUser, type Conversation, conversationOf, type Message } from '../conversation.ts'
import { readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { cachePoint, hasRoom, withinFour } from './cache-points.ts'
import { Content } from './content.ts'
import type { Family } from './families.data.ts'
import { familyOf, named } from './families.ts'
import { type Format, formatOf } from './format.ts'
import { inferenceOf } from './inference.ts'
import { namesOf } from './names.ts'
import { isForcing, type Tooling, toolingOf } from './tools.ts'

/** The call as a request of Converse. Throws 400 for what it has no word for. */
export const request = (call: TextCall, endpoint: Endpoint): UpstreamRequest => ({
  // Names hold colons, and those of inference profiles slashes.
  path: `/model/${encodeURIComponent(endpoint.upstreamModel)}/${call.stream ? 'converse-stream' : 'converse'}`,
  body: bodyOf(call, endpoint),
})

// Unknown parameters first, so that none of them can stand in for a known one.
function bodyOf(call: TextCall, endpoint: Endpoint): Json {
  const conversation = begunByUser(conversationOf(call.turns))
  const isPrefilled = prefills(conversation, endpoint)
  const format = formatOf(call, endpoint)
  const tooling = toolingOf(call, endpoint, namesOf(call), format, conversation)
  const inference = inferenceOf(call, endpoint, conversation, isPrefilled || isForcing(call, endpoint, format))
  const extra = readExtra(call)
  return {
    ...extra,
    ...saidOf(call, endpoint, conversation, tooling, format),
    ...merged('inferenceConfig', extra, inference.config),
    ...merged('additionalModelRequestFields', extra, {
      ...inference.fields,
      ...(tooling.tool_choice ? { tool_choice: tooling.tool_choice } : {}),
    }),
    ...(format.by === 'schema' ? { outputConfig: { textFormat: format.textFormat } } : {}),
    ...stopPaths(call, endpoint),
    ...tierOf(call),
  }
}

/** Whether the answer is begun by the caller. Throws 400 where the model would not go on with it. */
function prefills({ messages }: Conversation, endpoint: Endpoint): boolean {
  if (messages.at(-1)?.role !== 'assistant') return false
  const family = familyOf(endpoint)
  if (!(family.thinking === 'claude' ? capabilitiesOf(named(endpoint)).prefill : family.prefill))
    throw invalid('messages: the model goes on with no answer that was begun for it; the last message must be the user’s', 'messages')
  return true
}

/** What is said, with its cache points: tools, system and messages. */
function saidOf(call: TextCall, endpoint: Endpoint, { system, messages }: Conversation, { toolConfig }: Tooling, format: Format): Json {
  const family = familyOf(endpoint)
  const content = new Content(namesOf(call), family)
  const contents = messages.map(message => contentOf(message, content))
  if (messages.at(-1)?.role === 'assistant') trimmed(contents.at(-1))
  const lists = [toolConfig?.tools ?? [], systemOf(system, format, family), ...contents]
  if (hasRoom(lists)) lists.at(-1)?.push(...cachePoint(call.params.cache_control, family))
  const [tools = [], instructions = [], ...said] = withinFour(lists)
  return {
    ...(instructions.length > 0 ? { system: instructions } : {}),
    messages: messages.map(({ role }, i) => ({ role, content: said[i] ?? [] })),
    ...(toolConfig ? { toolConfig: { ...toolConfig, tools } } : {}),
  }
}

// A document alone is refused: something must be said of it.
function contentOf({ blocks }: Message, content: Content): Json[] {
  const said = content.of(blocks)
  const isSilent = said.some(block => 'document' in block) && !said.some(block => 'text' in block)
  return isSilent ? [{ text: 'This is the document.' }, ...said] : said
}

// What ends in white space is refused as the beginning of an answer.
function trimmed(content: Json[] | undefined): void {
  const last = content?.at(-1)
  if (typeof last?.text === 'string') last.text = last.text.trimEnd()
}

function systemOf(system: Block[], format: Format, family: Family): Json[] {
  const blocks = system.flatMap(block => instructionOf(block, family))
  const words = format.by === 'words' || format.by === 'tool' ? format.words : null
  return words === null ? blocks : [...blocks, { text: words }]
}

function instructionOf(block: Block, family: Family): Json[] {
  if (block.type !== 'text') throw invalid('messages: the provider takes instructions in words only', 'messages')
  return [{ text: block.text }, ...cachePoint(block.cache_control, family)]
}

/** What the caller gives under this name in Bedrock's own words, with ours over it. */
function merged(name: string, extra: Json, ours: Json): Json {
  const whole = isObject(extra[name]) ? { ...extra[name], ...ours } : ours
  return Object.keys(whole).length > 0 ? { [name]: whole } : {}
}

// Claude tells which sequence stopped it, if asked: in its answer, or in the last event of its stream.
const stopPaths = ({ params, stream }: TextCall, endpoint: Endpoint): Json =>
  params.stop && familyOf(endpoint).thinking === 'claude'
    ? { additionalModelResponseFieldPaths: [stream ? '/delta/stop_sequence' : '/stop_sequence'] }
    : {}

const TIERS = new Set(['default', 'flex', 'priority', 'reserved'])

const tierOf = ({ params: { service_tier = '' } }: TextCall): Json =>
  TIERS.has(service_tier) ? { serviceTier: { type: service_tier } } : {}
