import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { infer } from '../../src/engine/infer.ts'
import { toIncomingResponse } from '../../src/network/egress.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { buildTextCall } from '../support/call.ts'
import { measureBestLoopUse } from '../support/event-loop.ts'
import { testGateway } from '../support/gateway.ts'
import { LONG } from '../support/random.ts'

/** What no other call may wait for, in milliseconds. */
const LONGEST = 250
/** Objects of one hostile answer: a list of so many is the longest that is read. */
const MOST = 64 * 1024

const many = <T>(count: number, build: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => build(index))

const chat = (message: object, more: object = {}) => ({
  choices: [{ index: 0, message: { role: 'assistant', content: 'x', ...message } }],
  ...more,
})
const message = (content: unknown[]) => ({
  ...{ id: 'a', type: 'message', role: 'assistant', stop_reason: 'end_turn', content },
})
const citation = { type: 'web_search_result_location', url: 'http://a.b', title: 'x' }

/** The most that one answer can hold of what costs most to read, by protocol. */
const HOSTILE: [protocol: string, what: string, answer: (most: number) => object][] = [
  [
    'openai-chat',
    'citations and search results',
    most =>
      chat(
        {},
        {
          citations: many(most, i => `http://a.b/${i}`),
          search_results: many(most, i => ({ url: `http://a.b/${i}`, title: 'x' })),
        },
      ),
  ],
  [
    'openai-chat',
    'tool calls',
    most =>
      chat({
        tool_calls: many(most, i => ({ id: `c${i}`, function: { name: 'f', arguments: '{}' } })),
      }),
  ],
  [
    'openai-chat',
    'choices with pictures',
    most => ({
      choices: many(most, () => ({
        index: 0,
        message: {
          content: 'x',
          images: many(3, () => ({ image_url: { url: 'data:image/png;base64,AA' } })),
        },
      })),
    }),
  ],
  [
    'anthropic-messages',
    'blocks',
    most => message(many(most, () => ({ type: 'text', text: 'x' }))),
  ],
  [
    'anthropic-messages',
    'blocks with sources',
    most =>
      message(
        many(most / 64, () => ({ type: 'text', text: 'x', citations: many(640, () => citation) })),
      ),
  ],
  [
    'gemini',
    'parts',
    most => ({
      candidates: [{ content: { parts: many(most, () => ({ text: 'x' })) }, finishReason: 'STOP' }],
    }),
  ],
  [
    'cohere-chat',
    'blocks and citations',
    most => ({
      message: {
        content: many(most, () => ({ type: 'text', text: 'x' })),
        citations: many(most, () => ({ start: 0, end: 1, text: 'x', sources: [] })),
      },
      finish_reason: 'COMPLETE',
    }),
  ],
  [
    'openai-responses',
    'texts',
    most => ({
      status: 'completed',
      output: [
        {
          type: 'message',
          role: 'assistant',
          content: many(most, () => ({ type: 'output_text', text: 'x' })),
        },
      ],
    }),
  ],
  [
    'openai-responses',
    'sources',
    most => ({
      status: 'completed',
      output: [
        {
          type: 'message',
          role: 'assistant',
          content: [
            {
              type: 'output_text',
              text: 'x',
              annotations: many(most, i => ({
                type: 'url_citation',
                url: `http://a.b/${i}`,
                title: 'x',
                start_index: 0,
                end_index: 1,
              })),
            },
          ],
        },
      ],
    }),
  ],
  [
    'openai-responses',
    'calls',
    most => ({
      status: 'completed',
      output: many(most, i => ({
        type: 'function_call',
        id: `f${i}`,
        call_id: `c${i}`,
        name: 'f',
        arguments: '{}',
      })),
    }),
  ],
  [
    'openai-responses',
    'reasoning',
    most => ({
      status: 'completed',
      output: many(most, i => ({
        type: 'reasoning',
        id: `r${i}`,
        summary: [{ type: 'summary_text', text: 'x' }],
        encrypted_content: 'AA',
      })),
    }),
  ],
  [
    'bedrock-converse',
    'blocks',
    most => ({
      output: { message: { role: 'assistant', content: many(most, () => ({ text: 'x' })) } },
      stopReason: 'end_turn',
    }),
  ],
  [
    'bedrock-converse',
    'calls',
    most => ({
      output: {
        message: {
          role: 'assistant',
          content: many(most, i => ({ toolUse: { toolUseId: `c${i}`, name: 'f', input: {} } })),
        },
      },
      stopReason: 'tool_use',
    }),
  ],
  [
    'bedrock-converse',
    'reasoning',
    most => ({
      output: {
        message: {
          role: 'assistant',
          content: many(most, () => ({
            reasoningContent: { reasoningText: { text: 'x', signature: 's' } },
          })),
        },
      },
      stopReason: 'end_turn',
    }),
  ],
]

const isSettled = (thrown: unknown) => thrown instanceof GatewayError && thrown.status === 502

/** What a connection brings in one turn of the event loop. */
const PIECE = 64 * 1024

/** Delivers bytes as a connection does: piece by piece, each in a turn of its own. */
function deliver(bytes: Buffer): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream({
    async pull(controller) {
      await new Promise(resolve => setImmediate(resolve))
      controller.enqueue(new Uint8Array(bytes.subarray(at, at + PIECE)))
      at += PIECE
      if (at >= bytes.length) controller.close()
    },
  })
}

/** Makes a call whose provider answers with this, and returns how long others waited at most. */
async function measure(protocol: string, answer: object, limits: object = {}) {
  const body = Buffer.from(JSON.stringify(answer))
  const gateway = await testGateway({
    config: {
      providers: {
        local: {
          protocol,
          base_url: 'http://127.0.0.1:9/v1',
          api_key: 'k',
          ...(protocol === 'bedrock-converse' ? { auth: 'bearer' } : {}),
        },
      },
      models: [{ id: 'acme/small', endpoints: [{ provider: 'local', model: 'm' }] }],
      limits,
    },
    egress: async () =>
      toIncomingResponse(
        new Response(deliver(body), { headers: { 'content-type': 'application/json' } }),
      ),
  })
  const { longest, result } = await measureBestLoopUse(LONGEST, async () => {
    const call = buildTextCall({ stream: false })
    const { signal } = new AbortController()
    try {
      const { parts } = await infer(gateway, getOperator(gateway), 'text', call, signal)
      return (await parts.collect()).flat().length
    } catch (thrown) {
      return isSettled(thrown) ? 'refused' : thrown
    }
  })
  await gateway.close()
  return { longest, result }
}

describe('a whole answer of the most parts that are read lets nothing else wait for 250 ms', () => {
  test.each(HOSTILE)('%s: %s', async (protocol, _, answer) => {
    const { longest, result } = await measure(protocol, answer(MOST))
    expect(result === 'refused' || Number(result) > 0).toBe(true)
    expect(longest).toBeLessThan(LONGEST)
  })

  // The bound is the reader's: of each protocol one answer shows it.
  const first = HOSTILE.filter(
    ([protocol], i) => LONG || HOSTILE.findIndex(([other]) => other === protocol) === i,
  )
  test.each(first)(
    '%s: twice as many %s are refused',
    async (protocol, _, answer) => {
      const { result } = await measure(protocol, answer(MOST * 2))
      expect(result).toBe('refused')
    },
    60_000,
  )
})

test('others have their turns while a whole answer of 200,000 pieces is read, which a provider streams', async () => {
  const event = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
  const end =
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
  const body = Buffer.from(event.repeat(200_000) + end)
  const headers = { 'content-type': 'text/event-stream' }
  const gateway = await testGateway({
    config: {
      providers: {
        local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'k' },
      },
      models: [{ id: 'acme/small', endpoints: [{ provider: 'local', model: 'm' }] }],
    },
    egress: async () => toIncomingResponse(new Response(deliver(body), { headers })),
  })
  const call = buildTextCall({ dialect: 'messages', stream: false })
  const { signal } = new AbortController()
  const { parts } = await infer(gateway, getOperator(gateway), 'text', call, signal)
  let [count, longest, turns] = [0, 0, 0]
  const tick = setInterval(() => turns++)
  for await (const batch of parts) {
    count += batch.filter(({ type }) => type === 'text-delta').length
    longest = Math.max(longest, batch.length)
  }
  clearInterval(tick)
  await gateway.close()
  expect([count, longest <= 16_384, turns > 3]).toEqual([200_000, true, true])
})

test('an answer of more MiB than the setting is refused', async () => {
  const long = chat({ content: 'x'.repeat(1024 * 1024) })
  expect((await measure('openai-chat', long, { answer_mib: 1 })).result).toBe('refused')
  expect(Number((await measure('openai-chat', long, { answer_mib: 2 })).result)).toBeGreaterThan(0)
})
