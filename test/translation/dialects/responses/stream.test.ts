import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../../src/base/errors.ts'
import { type Json, readObject, readObjects } from '../../../../src/base/json.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import { toMessages } from '../../../../src/translation/dialects/responses/request.ts'
import { collectResponse } from '../../../../src/translation/dialects/responses/response.ts'
import type { ResponsesRequest } from '../../../../src/translation/dialects/responses/schema.ts'
import {
  ResponseStream,
  renderResponseFailure,
  streamResponseEvents,
} from '../../../../src/translation/dialects/responses.ts'
import { createAnswer, failed, finish, receipt, start, text } from '../../../support/answer.ts'
import { buildTextCall } from '../../../support/call.ts'
import { randomBatches } from '../../../support/random-parts.ts'
import {
  assembleResponse,
  parseEvents,
  type ResponseEvent,
} from '../../../support/response-events.ts'

const choice = 0
const call = buildTextCall({ dialect: 'responses' })
const BODY: ResponsesRequest = { input: 'Hi' }

async function eventsOf(...batches: TextPart[][]): Promise<ResponseEvent[]> {
  let wire = ''
  const events = streamResponseEvents(createAnswer(...batches), call, BODY)
  for (let step = await events.next(); !step.done; step = await events.next()) wire += step.value
  return parseEvents(wire)
}

const typesOf = (events: ResponseEvent[]) => events.map(({ type }) => type)
const wholeOf = async (...batches: TextPart[][]): Promise<Json> =>
  JSON.parse(JSON.stringify(await collectResponse(createAnswer(...batches), call, BODY)))
const other = (value: Json, isPreview?: true): TextPart => ({
  type: 'other',
  choice,
  dialect: 'responses',
  value,
  ...(isPreview ? { isPreview } : {}),
})

describe('a streamed response', () => {
  test('of a text has every event of trap 63, in order', async () => {
    const events = await eventsOf([start, text('Hel')], [text('lo'), finish], [receipt])
    expect(typesOf(events)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ])
    expect(assembleResponse(events)).toMatchObject({
      id: 'gen-1',
      object: 'response',
      status: 'completed',
      output_text: 'Hello',
      service_tier: 'standard',
      usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
    })
  })

  test('is the whole response, whatever the parts are and however they are divided', async () => {
    await fc.assert(
      fc.asyncProperty(randomBatches, async batches => {
        const streamed = assembleResponse(await eventsOf(...batches, [receipt]))
        expect(streamed).toEqual(await wholeOf(...batches, [receipt]))
      }),
    )
  })

  test('can be sent back as it came, whatever the parts are', async () => {
    await fc.assert(
      fc.asyncProperty(randomBatches, async batches => {
        const { output } = await wholeOf(...batches, [receipt])
        const blocks = toMessages(readObjects(output)).flatMap(message => message.blocks)
        const said = blocks.map(block => (block.type === 'text' ? block.text : '')).join('')
        const parts = batches.flat()
        expect(said).toBe(parts.map(part => (part.type === 'text-delta' ? part.text : '')).join(''))
        const inputs = blocks.flatMap(block => (block.type === 'tool-call' ? block.id : []))
        expect(inputs).toEqual(
          parts.flatMap(part => (part.type === 'tool-call-start' ? part.id : [])),
        )
      }),
    )
  })

  test('that breaks off fails, and never ends in silence', async () => {
    const events = await eventsOf([text('Hel')], [failed, receipt])
    expect(assembleResponse(events)).toMatchObject({
      status: 'failed',
      error: { code: 'server_error', message: 'Provider returned error' },
      error_type: 'provider_unavailable',
      completed_at: null,
      output: [{ type: 'message', status: 'incomplete' }],
    })
  })

  test('that ends in an error of the provider without details fails', async () => {
    const broken: TextPart = { type: 'finish', choice, reason: 'error', native: 'error' }
    const events = await eventsOf([text('Hel'), broken], [receipt])
    expect(assembleResponse(events)).toMatchObject({ status: 'failed' })
  })

  test.each([
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ] as const)('that ends for %s is incomplete, which is no failure', async (reason, named) => {
    const cut: TextPart = { type: 'finish', choice, reason, native: reason }
    const response = assembleResponse(await eventsOf([text('Hel'), cut], [receipt]))
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: named },
      error: null,
    })
  })

  test('that overruns the context is incomplete', async () => {
    const error = new GatewayError('context_length_exceeded', 'Too long')
    const events = await eventsOf([text('Hel')], [{ type: 'error', error }, receipt])
    expect(assembleResponse(events)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      error: null,
    })
  })

  test.each([
    ['context_length_exceeded', 'context_length_exceeded'],
    ['token_limit_exceeded', 'context_length_exceeded'],
    ['string_too_long', 'context_length_exceeded'],
    ['max_tokens_exceeded', 'invalid_prompt'],
  ] as const)('that fails with %s before anything began has the code %s', async (type, code) => {
    const error = new GatewayError(type, 'Too long')
    expect(assembleResponse(await eventsOf([{ type: 'error', error }, receipt]))).toMatchObject({
      status: 'failed',
      incomplete_details: null,
      error: { code, message: 'Too long' },
      error_type: type,
    })
  })

  test('of a refusal says so in a content part', async () => {
    const refusal: TextPart = { type: 'refusal-delta', choice, text: 'No' }
    const ended: TextPart = { type: 'finish', choice, reason: 'content_filter', native: null }
    const response = assembleResponse(await eventsOf([refusal, ended], [receipt]))
    expect(response).toMatchObject({
      status: 'completed',
      output: [{ type: 'message', content: [{ type: 'refusal', refusal: 'No' }] }],
    })
  })

  test('keeps calls open whose arguments are interleaved (trap 61)', async () => {
    const begin = (index: number): TextPart => ({
      type: 'tool-call-start',
      choice,
      index,
      id: `call_${index}`,
      name: 'get',
    })
    const add = (index: number, input: string): TextPart => ({
      type: 'tool-call-delta',
      choice,
      index,
      input,
    })
    const parts = [begin(0), add(0, '{"a"'), begin(1), add(1, '{}'), add(0, ':1}'), finish]
    const { output } = assembleResponse(await eventsOf(parts, [receipt]))
    const calls = readObjects(output)
    expect(calls.map(({ call_id, arguments: input }) => [call_id, input])).toEqual([
      ['call_0', '{"a":1}'],
      ['call_1', '{}'],
    ])
    // Trap 64: the id of the item is not that of the call.
    for (const { id, call_id } of calls) expect(id).not.toBe(call_id)
  })

  test('gives an item of the provider its whole life', async () => {
    const item = { type: 'web_search_call', id: 'ws_1', status: 'completed', action: {} }
    const events = await eventsOf([other(item), text('Hi'), finish], [receipt])
    expect(typesOf(events).slice(2, 7)).toEqual([
      'response.output_item.added',
      'response.web_search_call.in_progress',
      'response.web_search_call.searching',
      'response.web_search_call.completed',
      'response.output_item.done',
    ])
    expect(readObjects(assembleResponse(events).output)[0]).toEqual(item)
  })

  test('names the document of the caller that a text cites', async () => {
    const citation = { type: 'page_location', document_index: 1, document_title: 'Report' }
    const batches: TextPart[][] = [
      [
        { type: 'text-delta', choice: 0, text: 'So' },
        { type: 'annotation', choice: 0, annotation: null, citation },
        {
          type: 'annotation',
          choice: 0,
          annotation: null,
          citation: { ...citation, file_id: 'f' },
        },
        { type: 'annotation', choice: 0, annotation: null, citation: { type: 'unheard_of' } },
      ],
      [finish, receipt],
    ]
    const { output } = await collectResponse(createAnswer(...batches), call, BODY)
    const cited = { type: 'file_citation', filename: 'Report', index: 1 }
    expect(output).toMatchObject([
      {
        content: [
          {
            annotations: [
              { ...cited, file_id: 'document_1' },
              { ...cited, file_id: 'f' },
            ],
          },
        ],
      },
    ])
  })

  test('passes the provider’s own events on, numbered anew', async () => {
    const added = { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c', name: 'sh', input: '' }
    const events = await eventsOf(
      [text('Hi')],
      [
        other({ type: 'response.output_item.added', output_index: 7, item: added }, true),
        other(
          {
            type: 'response.custom_tool_call_input.delta',
            output_index: 7,
            item_id: 'ctc_1',
            sequence_number: 99,
            delta: 'ls',
          },
          true,
        ),
        other(
          {
            type: 'response.custom_tool_call_input.done',
            output_index: 7,
            item_id: 'ctc_1',
            input: 'ls',
          },
          true,
        ),
        other({ type: 'response.hologram.shown', output_index: 7, item_id: 'ctc_1' }, true),
        other({ ...added, input: 'ls' }),
      ],
      [finish, receipt],
    )
    expect(typesOf(events)).toContain('response.hologram.shown')
    expect(assembleResponse(events).output).toMatchObject([
      { type: 'message' },
      { type: 'custom_tool_call', id: 'ctc_1', input: 'ls' },
    ])
  })

  test('that never ends fails before it fills the memory', async () => {
    const piece = text('x'.repeat(16 * 1024 * 1024))
    const batches = [...Array(5).keys()].map(() => [piece])
    const answer = createAnswer(...batches, [finish, receipt])
    const response = await collectResponse(answer, call, BODY)
    expect(response).toMatchObject({
      status: 'failed',
      error: { message: 'The answer is too long' },
    })
    expect(String(response.output_text)).toHaveLength(64 * 1024 * 1024)
  })

  test('ends an item of which the provider sent only the beginning', async () => {
    const item = { type: 'web_search_call', id: 'ws_1', status: 'in_progress' }
    const added = other({ type: 'response.output_item.added', output_index: 0, item }, true)
    const response = assembleResponse(await eventsOf([added], [failed, receipt]))
    expect(response.output).toEqual([{ ...item, status: 'incomplete' }])
  })

  test('shows the body sent upstream to those who asked', async () => {
    const echo: TextPart = { type: 'echo', provider: 'p', model: 'm', body: { model: 'm' } }
    const events = await eventsOf([echo, text('Hi'), finish], [receipt])
    const debug = { echo_upstream_body: { model: 'm' } }
    expect(events.find(({ type }) => type === 'response.debug')).toMatchObject({ debug })
    assembleResponse(events)
  })

  test('R04 shows that it waits in events, which are numbered among the others', async () => {
    const heading = { id: 'gen-1', created: 0, model: 'acme/requested', provider: '' }
    const stream = new ResponseStream(heading, call, BODY)
    let wire = stream.renderKeepAlive() + stream.renderKeepAlive()
    const events = stream.streamEvents(createAnswer([text('Hel')], [text('lo'), finish], [receipt]))
    for (let step = await events.next(); !step.done; step = await events.next()) {
      wire += step.value
      if (!wire.includes('[DONE]')) wire += stream.renderKeepAlive()
    }
    const all = parseEvents(wire)
    expect(all.map(({ sequence_number }) => sequence_number)).toEqual([...all.keys()])
    expect(typesOf(all).filter(type => type === 'response.created')).toHaveLength(1)
    expect(typesOf(all).filter(type => type === 'response.in_progress').length).toBeGreaterThan(3)
    const whole = assembleResponse(all)
    expect(whole).toMatchObject({ status: 'completed', output_text: 'Hello', model: 'acme/small' })
  })

  test('R04 is the same response wherever it had to wait, whatever the parts are', async () => {
    const waits = fc.array(fc.nat(2), { minLength: 1, maxLength: 20 })
    await fc.assert(
      fc.asyncProperty(randomBatches, waits, async (batches, counts) => {
        const heading = { id: 'gen-1', created: 0, model: 'acme/requested', provider: '' }
        const stream = new ResponseStream(heading, call, BODY)
        const wait = (i: number) =>
          Array.from({ length: counts[i % counts.length] ?? 0 }, () => stream.renderKeepAlive())
        let wire = wait(0).join('')
        const events = stream.streamEvents(createAnswer(...batches, [receipt]))
        for (let i = 1, step = await events.next(); !step.done; step = await events.next()) {
          wire += step.value
          if (!wire.includes('[DONE]')) wire += wait(i++).join('')
        }
        const waited = assembleResponse(parseEvents(wire))
        const { output, status } = assembleResponse(await eventsOf(...batches, [receipt]))
        expect([waited.output, waited.status]).toEqual([output, status])
      }),
    )
  })

  test('that fails after keep-alives is a response that begins and fails', () => {
    const heading = { id: 'gen-1', created: 0, model: 'acme/small', provider: '' }
    const error = new GatewayError('rate_limit_exceeded', 'Slow down')
    const events = parseEvents(renderResponseFailure(heading, error, call, BODY))
    expect(typesOf(events)).toEqual(['response.created', 'response.in_progress', 'response.failed'])
    expect(readObject(assembleResponse(events), 'error').code).toBe('rate_limit_exceeded')
  })
})
