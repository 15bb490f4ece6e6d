import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/core/errors.ts'
import { getOperator } from '../../../src/core/identity/actor.ts'
import { infer } from '../../../src/core/inference/infer.ts'
import { toIncomingResponse } from '../../../src/core/upstream/egress.ts'
import { buildTextCall } from '../../support/call.ts'
import { measureLoopUse } from '../../support/event-loop.ts'
import { testGateway } from '../../support/gateway.ts'

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
]

const isSettled = (thrown: unknown) => thrown instanceof GatewayError && thrown.status === 502

/** Makes a call whose provider answers with this, and returns how long others waited at most. */
async function measure(protocol: string, answer: object, limits: object = {}) {
  const body = JSON.stringify(answer)
  const gateway = await testGateway({
    config: {
      providers: { local: { protocol, base_url: 'http://127.0.0.1:9/v1', api_key: 'k' } },
      models: [{ id: 'acme/small', endpoints: [{ provider: 'local', model: 'm' }] }],
      limits,
    },
    egress: async () =>
      toIncomingResponse(new Response(body, { headers: { 'content-type': 'application/json' } })),
  })
  const { longest, result } = await measureLoopUse(async () => {
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

  test.each(HOSTILE)(
    '%s: ten times as many %s are refused',
    async (protocol, _, answer) => {
      const { result } = await measure(protocol, answer(MOST * 10))
      expect(result).toBe('refused')
    },
    60_000,
  )
})

test('an answer of more MiB than the setting is refused', async () => {
  const long = chat({ content: 'x'.repeat(1024 * 1024) })
  expect((await measure('openai-chat', long, { answer_mib: 1 })).result).toBe('refused')
  expect(Number((await measure('openai-chat', long, { answer_mib: 2 })).result)).toBeGreaterThan(0)
})
