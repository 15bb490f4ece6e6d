import { expect, test } from 'bun:test'
import { type Json, readObjects } from '../../../../src/base/json.ts'
import { fitToEndpoint } from '../../../../src/engine/kinds/text/understanding.ts'
import { toMessages } from '../../../../src/translation/dialects/responses/request.ts'
import { collectResponse } from '../../../../src/translation/dialects/responses/response.ts'
import { streamResponseEvents } from '../../../../src/translation/dialects/responses.ts'
import type { Frame } from '../../../../src/translation/protocols/protocol.ts'
import { protocols } from '../../../../src/translation/protocols/registry.ts'
import { createAnswer, receipt } from '../../../support/answer.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'
import { parseEvents } from '../../../support/response-events.ts'

/* The traps of translation that concern this door, from a provider's answer to its next request. */

const call = buildTextCall({ dialect: 'responses' })
const BODY = { input: 'Hi' }

const SLUGS: Record<string, string> = {
  'anthropic-messages': 'anthropic',
  gemini: 'google-ai-studio',
  'openai-responses': 'openai',
  'openai-chat': 'acme',
}

function openProtocol(name: string) {
  const protocol = protocols.text[name]
  if (!protocol) throw new Error(`There is no protocol ${name}`)
  const provider = buildProvider({ slug: SLUGS[name] ?? name })
  return { protocol, endpoint: buildEndpoint({ provider, protocol: name }) }
}

/** Reads a provider's whole answer into the items of a response, as a client gets them. */
async function itemsOf(name: string, answer: Json): Promise<Json[]> {
  const { protocol, endpoint } = openProtocol(name)
  const parts = protocol.parseAnswer(answer, call, endpoint)
  const response = await collectResponse(createAnswer(parts, [receipt]), call, BODY)
  return readObjects(JSON.parse(JSON.stringify(response.output)))
}

/** Reads a provider's stream into the events of a response. */
async function eventsOf(name: string, frames: Json[]) {
  const { protocol, endpoint } = openProtocol(name)
  const reader = protocol.createReader(call, endpoint)
  const toFrame = (data: Json): Frame => ({ event: null, data: JSON.stringify(data) })
  const batches = frames.map(frame => reader.read(toFrame(frame)))
  let wire = ''
  const events = streamResponseEvents(createAnswer(...batches, [receipt]), call, BODY)
  for (let step = await events.next(); !step.done; step = await events.next()) wire += step.value
  return parseEvents(wire)
}

/** Builds the next request to a provider, with these items between two messages of the user. */
function requestWith(name: string, items: Json[]): Json {
  const { protocol, endpoint } = openProtocol(name)
  const input = [{ role: 'user', content: 'Hi' }, ...items, { role: 'user', content: 'Go on' }]
  const next = buildTextCall({ dialect: 'responses', messages: toMessages(input) })
  return protocol.buildRequest(fitToEndpoint(next, endpoint), endpoint).body
}

const claude = (...content: Json[]) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  content,
  stop_reason: 'end_turn',
  usage: { input_tokens: 10, output_tokens: 5, cache_read_input_tokens: 7 },
})
const TEXT = { type: 'text', text: 'Hello' }

test('trap 60: a name and all arguments at once have their whole life', async () => {
  const tool_call = { index: 0, id: 'call_1', function: { name: 'get', arguments: '{"a":1}' } }
  const events = await eventsOf('openai-chat', [
    { choices: [{ index: 0, delta: { tool_calls: [tool_call] } }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
  ])
  expect(events.map(({ type }) => type).slice(2, 6)).toEqual([
    'response.output_item.added',
    'response.function_call_arguments.delta',
    'response.function_call_arguments.done',
    'response.output_item.done',
  ])
})

test('trap 64: the id of an item is not that of its call', async () => {
  const item = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'call_1',
    name: 'get',
    arguments: '{}',
    status: 'completed',
  }
  const answer = { id: 'resp_1', object: 'response', status: 'completed', output: [item] }
  const items = await itemsOf('openai-responses', answer)
  expect(items).toMatchObject([{ id: 'fc_1', call_id: 'call_1' }])
  const output = { type: 'function_call_output', call_id: 'call_1', output: 'one' }
  expect(requestWith('openai-responses', [...items, output]).input).toMatchObject([
    { role: 'user' },
    { type: 'function_call', call_id: 'call_1' },
    { type: 'function_call_output', call_id: 'call_1' },
    { role: 'user' },
  ])
})

test.each<[string, Json]>([
  ['trap 67: a redacted thought', { type: 'redacted_thinking', data: 'c2Vj' }],
  ['trap 93: a signed thought', { type: 'thinking', thinking: 'Hm', signature: 'c2ln' }],
  ['trap 94: a signature without a thought', { type: 'thinking', thinking: '', signature: 'c2ln' }],
])('%s comes back to Claude as it came, first in its turn', async (_, thought) => {
  const items = await itemsOf('anthropic-messages', claude(thought, TEXT))
  expect(items.map(({ type }) => type)).toEqual(['reasoning', 'message'])
  const messages = readObjects(requestWith('anthropic-messages', items).messages)
  expect(readObjects(messages[1]?.content)[0]).toEqual(thought)
})

test('trap 96: a thought of one provider is left out at another, and the words stay', async () => {
  const thought = { type: 'thinking', thinking: 'Hm', signature: 'c2ln' }
  const items = await itemsOf('anthropic-messages', claude(thought, TEXT))
  for (const name of ['gemini', 'openai-responses']) {
    const body = JSON.stringify(requestWith(name, items))
    expect(body).not.toContain('c2ln')
    expect(body).toContain('Hello')
  }
})

test('trap 97: a signature of Gemini survives the way through the client', async () => {
  const thoughtSignature = 'c2lnbmVk'
  const functionCall = { name: 'get', args: { a: 1 } }
  const items = await itemsOf('gemini', {
    candidates: [
      { content: { parts: [{ functionCall, thoughtSignature }] }, finishReason: 'STOP' },
    ],
  })
  const made = items.find(({ type }) => type === 'function_call')
  const output = { type: 'function_call_output', call_id: made?.call_id, output: 'one' }
  const { contents } = requestWith('gemini', [...items, output])
  expect(readObjects(contents)[1]).toMatchObject({
    role: 'model',
    parts: [{ functionCall: { name: 'get' }, thoughtSignature }],
  })
})

test('trap 69: every way to end has its status', async () => {
  const ended = async (stop_reason: string) => {
    const { protocol, endpoint } = openProtocol('anthropic-messages')
    const parts = protocol.parseAnswer({ ...claude(TEXT), stop_reason }, call, endpoint)
    const response = await collectResponse(createAnswer(parts, [receipt]), call, BODY)
    const { status, incomplete_details } = response as Json
    return [status, (incomplete_details as Json | null)?.reason ?? null]
  }
  expect(await ended('end_turn')).toEqual(['completed', null])
  expect(await ended('tool_use')).toEqual(['completed', null])
  expect(await ended('stop_sequence')).toEqual(['completed', null])
  expect(await ended('max_tokens')).toEqual(['incomplete', 'max_output_tokens'])
  expect(await ended('model_context_window_exceeded')).toEqual(['incomplete', 'max_output_tokens'])
  expect(await ended('refusal')).toEqual(['incomplete', 'content_filter'])
})
