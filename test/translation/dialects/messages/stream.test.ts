import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import { createTextUsage } from '../../../../src/language/usage.ts'
import {
  PING,
  renderMessagesFailure,
  streamMessagesEvents,
} from '../../../../src/translation/dialects/messages.ts'
import { createAnswer, failed, finish, receipt, start, text } from '../../../support/answer.ts'
import { buildTextCall } from '../../../support/call.ts'

const choice = 0

type Event = { type: string } & Record<string, unknown>

async function eventsOf(batches: TextPart[][], call: TextCall = buildTextCall()): Promise<Event[]> {
  const events: Event[] = []
  const texts = streamMessagesEvents(createAnswer(...batches), call)
  for (let step = await texts.next(); !step.done; step = await texts.next())
    events.push(...parsed(step.value))
  return events
}

/** Parses the events in a text. The name of each must be its type. */
function parsed(wire: string): Event[] {
  return wire
    .split('\n\n')
    .filter(block => block !== '')
    .map(block => {
      const [, name, data = ''] = /^event: (.+)\ndata: (.+)$/.exec(block) ?? []
      const event = JSON.parse(data)
      expect(event.type).toBe(name)
      return event
    })
}

const typesOf = (events: Event[]) => events.map(event => event.type)

describe('a stream', () => {
  test('has one start, the blocks, the stop reason with the usage, and the end', async () => {
    const events = await eventsOf([[start, text('Hel')], [text('lo')], [finish], [receipt]])
    expect(typesOf(events)).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ])
    expect(events[0]).toMatchObject({
      message: { id: 'gen-1', type: 'message', role: 'assistant', content: [], stop_reason: null },
    })
    expect(events.at(-2)).toMatchObject({
      delta: { stop_reason: 'end_turn', stop_sequence: null },
      usage: { input_tokens: 10, output_tokens: 5 },
    })
  })

  test('trap 73: begins with the provider’s count of the prompt if that comes first', async () => {
    const usage: TextPart = { type: 'usage', usage: createTextUsage(77, 1) }
    const [first] = await eventsOf([[start, usage, text('a')], [finish], [receipt]])
    expect(first).toMatchObject({
      message: { usage: { input_tokens: 77, output_tokens: 1, service_tier: 'standard' } },
    })
  })

  test('trap 73: begins with an estimate if it does not', async () => {
    const long = buildTextCall({
      messages: [{ role: 'user', blocks: [{ type: 'text', text: 'word '.repeat(1000) }] }],
    })
    const [first] = (await eventsOf([[text('a')], [finish], [receipt]], long)) as unknown as {
      message: { usage: { input_tokens: number } }
    }[]
    expect(first?.message.usage.input_tokens).toBeWithin(900, 1500)
  })

  test('trap 72: ends with the usage of the receipt, whatever came before', async () => {
    const usage = (output: number): TextPart => ({
      type: 'usage',
      usage: createTextUsage(10, output),
    })
    const events = await eventsOf([
      [usage(1), text('a')],
      [usage(3)],
      [usage(5), finish],
      [receipt],
    ])
    expect(events.at(-2)).toMatchObject({ usage: { input_tokens: 10, output_tokens: 5, cost: 0 } })
  })

  test('trap 74: sends a failure as an error event, and as the last one', async () => {
    const events = await eventsOf([[text('Hel')], [failed, receipt]])
    expect(typesOf(events)).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'error',
    ])
    expect(events.at(-1)).toEqual({
      type: 'error',
      error: {
        type: 'api_error',
        message: 'Provider returned error',
        error_type: 'provider_unavailable',
      },
      request_id: 'gen-1',
    })
  })

  test('fails if the provider stopped with an error', async () => {
    const events = await eventsOf([
      [text('a'), { type: 'finish', choice, reason: 'error', native: 'error' }, receipt],
    ])
    expect(typesOf(events).slice(-2)).toEqual(['content_block_stop', 'error'])
  })

  test('that fails before it begins is the error alone', () => {
    const [event, ...more] = parsed(
      renderMessagesFailure(new GatewayError('timeout', 'Too slow'), 'gen-1'),
    )
    expect(event).toMatchObject({ type: 'error', error: { type: 'timeout_error' } })
    expect(more).toEqual([])
  })

  test('that the client abandons ends the answer', async () => {
    const answer = createAnswer([text('a')], [text('b')])
    const events = streamMessagesEvents(answer, buildTextCall())
    await events.next()
    await events.return?.()
    expect(await answer.parts.next()).toMatchObject({ done: true })
  })

  test('is kept alive by ping events', () => {
    expect(PING).toBe('event: ping\ndata: {"type":"ping"}\n\n')
  })
})
