import type { Endpoint } from '../../catalog/models.ts'
import { invalid } from '../../errors.ts'
import { type Json, member } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import { begunByUser, type Conversation, conversationOf } from '../conversation.ts'
import { isNative, readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { betasOf } from './betas.ts'
import { atTheEnd, withinFour } from './cache-markers.ts'
import { capabilitiesOf } from './capabilities.ts'
import { Content } from './content.ts'
import { type Format, formatOf } from './format.ts'
import { namesOf } from './names.ts'
import { NATIVE } from './native.ts'
import { samplingOf } from './sampling.ts'
import { type Thinking, thinkingOf } from './thinking.ts'
import { isForcing, toolingOf } from './tools.ts'

const VERSION = '2023-06-01'
const VERTEX_VERSION = 'vertex-2023-10-16'

/** The call as a message request of Anthropic's API. Throws 400 for what it has no word for. */
export function request(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const headers = { 'anthropic-version': VERSION, ...betaHeader(call, endpoint) }
  return { path: '/messages', headers, body: { ...bodyOf(call, endpoint), model: endpoint.upstreamModel } }
}

/** The same as Vertex AI takes it: the model stands in the path, the version in the body ("Claude on Vertex AI"). */
export function vertexRequest(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const model = encodeURIComponent(endpoint.upstreamModel).replaceAll('%40', '@')
  const { model: _, ...body } = atTheEnd(bodyOf(call, endpoint))
  return {
    path: `/models/${model}:${call.stream ? 'streamRawPredict' : 'rawPredict'}`,
    headers: betaHeader(call, endpoint),
    body: { ...body, anthropic_version: VERTEX_VERSION },
  }
}

function betaHeader(call: TextCall, endpoint: Endpoint): Record<string, string> {
  const betas = betasOf(call, endpoint)
  return betas.length > 0 ? { 'anthropic-beta': betas.join(',') } : {}
}

// Unknown parameters first, so that none of them can stand in for a known one.
function bodyOf(call: TextCall, endpoint: Endpoint): Json {
  const conversation = begunByUser(conversationOf(call.turns))
  const format = formatOf(call, endpoint)
  const names = namesOf(call)
  const content = new Content(call, names)
  const isPrefilled = prefills(conversation, endpoint)
  const isBarred = isPrefilled || format.by === 'tool' || isForcing(call.params.tool_choice)
  const thinking = thinkingOf(call, endpoint, conversation, isBarred)
  return withinFour({
    ...withoutForeign(readExtra(call, NATIVE)),
    ...thoughtful(thinking),
    ...outputConfig(call, thinking, format),
    ...systemOf(conversation, content, format),
    messages: messagesOf(conversation, content, isPrefilled),
    ...toolingOf(call, endpoint, names, format),
    ...samplingOf(call.params, capabilitiesOf(endpoint), thinking),
    ...others(call),
  })
}

/** What OpenAI's clients send and nobody here knows: this API refuses what it does not know, and would not do it anyway. */
const FOREIGN = ['n', 'best_of', 'echo', 'suffix', 'store', 'functions', 'function_call', 'structured_outputs', 'max_tool_calls']

const withoutForeign = (extra: Json): Json => Object.fromEntries(Object.entries(extra).filter(([name]) => !FOREIGN.includes(name)))

/** Whether the answer is begun by the caller. Throws 400 where the model would refuse to go on with it. */
function prefills({ messages }: Conversation, endpoint: Endpoint): boolean {
  const last = messages.at(-1)
  // What the provider's own tools left open is gone on with, and no prefill.
  if (last?.role !== 'assistant' || last.blocks.at(-1)?.type === 'other') return false
  if (!capabilitiesOf(endpoint).prefill)
    throw invalid('messages: the model goes on with no answer that was begun for it; the last message must be the user’s', 'messages')
  return true
}

const thoughtful = ({ thinking, max_tokens }: Thinking): Json => ({ max_tokens, ...(thinking ? { thinking } : {}) })

function outputConfig(call: TextCall, { effort }: Thinking, format: Format): Json {
  const config: Json = { ...readOwn(call, 'output_config') }
  if (effort !== undefined) config.effort = effort
  if (format.by === 'schema') config.format = { type: 'json_schema', schema: format.schema }
  return Object.keys(config).length > 0 ? { output_config: config } : {}
}

function systemOf({ system }: Conversation, content: Content, format: Format): Json {
  const blocks = content.of(system)
  if (format.by === 'words') blocks.push({ type: 'text', text: format.words })
  return blocks.length > 0 ? { system: plainly(blocks) } : {}
}

function messagesOf({ messages }: Conversation, content: Content, isPrefilled: boolean): Json[] {
  const said = messages.map(({ role, blocks }) => ({ role, content: content.of(blocks) })).filter(({ content }) => content.length > 0)
  const last = said.at(-1)?.content.at(-1)
  // What ends in white space is refused as a beginning.
  if (isPrefilled && typeof last?.text === 'string') last.text = last.text.trimEnd()
  return said.map(({ role, content }) => ({ role, content: plainly(content) }))
}

// A single plain text goes as a string, as people write it.
function plainly(blocks: Json[]): string | Json[] {
  const [only] = blocks
  return blocks.length === 1 && only?.type === 'text' && typeof only.text === 'string' && Object.keys(only).length === 2
    ? only.text
    : blocks
}

/** Returns a parameter of this API that a client of its own dialect sent; empty without one. */
function readOwn(call: TextCall, name: string): Json {
  return isNative(call, NATIVE) ? member(call.extra, name) : {}
}

function others(call: TextCall): Json {
  const { params, user, stream } = call
  const said: Json = {}
  const stop = params.stop?.filter(sequence => sequence.trim() !== '') ?? []
  const tier = TIERS.get(params.service_tier ?? '')
  if (stop.length > 0) said.stop_sequences = stop
  if (user !== null) said.metadata = { ...readOwn(call, 'metadata'), user_id: user }
  if (tier !== undefined) said.service_tier = tier
  if (params.cache_control) said.cache_control = params.cache_control
  if (stream) said.stream = true
  return said
}

/** Which of its tiers this API means by a wish: priority is what it gives by itself to those who have bought it. */
const TIERS = new Map([
  ['auto', 'auto'],
  ['priority', 'auto'],
  ['default', 'standard_only'],
  ['standard', 'standard_only'],
  ['standard_only', 'standard_only'],
])
