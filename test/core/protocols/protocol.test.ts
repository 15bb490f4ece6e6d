import { describe, expect, test } from 'bun:test'
import { kinds } from '../../../src/core/inference/kinds.ts'
import type { TextCall } from '../../../src/core/language/call.ts'
import type { Block } from '../../../src/core/language/message.ts'
import type { Params } from '../../../src/core/language/params.ts'
import type { Protocol } from '../../../src/core/protocols/protocol.ts'
import { protocols } from '../../../src/core/protocols/registry.ts'
import { buildEndpoint, buildTextCall } from '../../support/call.ts'

/*
 * What every protocol for text guarantees. A new protocol is tested as soon as it is listed.
 */

const { removeNames } = kinds.text.understanding

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const text = (said: string): Block => ({ type: 'text', text: said })

/** A call with every kind of field and content. */
const everything = (more: Partial<TextCall> = {}): TextCall =>
  buildTextCall({
    messages: [
      { role: 'system', blocks: [text('Be kind.')] },
      {
        role: 'user',
        name: 'ada',
        blocks: [text('Look'), { type: 'image', url: PNG, detail: 'high' }],
      },
      {
        role: 'assistant',
        blocks: [{ type: 'tool-call', id: 'call_1', name: 'get.weather', input: '' }],
      },
      { role: 'tool', tool_call_id: 'call_1', blocks: [text('sunny')] },
      { role: 'user', blocks: [text('And now?')] },
    ],
    tools: [
      { type: 'function', name: 'get.weather', parameters: { type: 'object', properties: {} } },
    ],
    ...more,
  })

/** Returns the call as an attempt passes it on. */
const sent = (protocol: Protocol<'text'>, call: TextCall) =>
  protocol.buildRequest(
    protocol.acceptsNames ? call : removeNames(call),
    buildEndpoint({ max_completion_tokens: 8_000 }),
  )

const PARAMS: Params = {
  temperature: 2,
  top_p: 0.5,
  top_k: 40,
  min_p: 0.1,
  top_a: 0.1,
  frequency_penalty: -2,
  presence_penalty: 2,
  repetition_penalty: 1.5,
  max_tokens: 4_000,
  seed: 7,
  stop: ['a', 'b', 'c', 'd'],
  logit_bias: { '50256': -100 },
  logprobs: true,
  top_logprobs: 20,
  prediction: { type: 'content', content: 'x' },
  parallel_tool_calls: false,
  verbosity: 'low',
  service_tier: 'flex',
  prompt_cache_key: 'k',
}

for (const [name, protocol] of Object.entries(protocols.text)) {
  describe(name, () => {
    test('trap 12: builds the same request again for a retry, and does not change the call', () => {
      const call = everything({ params: { ...PARAMS } })
      const before = structuredClone(call)
      const first = JSON.stringify(sent(protocol, call))
      expect(JSON.stringify(sent(protocol, call))).toBe(first)
      expect(call).toEqual(before)
      expect(first.match(/ada/g)).toHaveLength(1)
    })

    test('trap 15: passes on an image’s detail or leaves it out, without an error', () => {
      const written = JSON.stringify(sent(protocol, everything()).body)
      expect(written).toContain('iVBORw0KGgo=')
    })

    test('trap 52: passes on the number of answers by the provider’s name, or omits it', () => {
      const { body } = sent(protocol, everything({ extra: { n: 2 } }))
      expect(
        JSON.stringify(body).match(/"(n|candidateCount|num_generations)":2/g)?.length ?? 0,
      ).toBeLessThanOrEqual(1)
    })

    test('trap 53: leaves out sampling parameters that the provider does not have', () => {
      expect(() => sent(protocol, everything({ params: PARAMS }))).not.toThrow()
    })

    test('trap 57: sends no parameter meant for the gateway', () => {
      const routing = { order: ['local'], zdr: true }
      const written = JSON.stringify(
        sent(protocol, everything({ routing, session_id: 's-1', trace: { trace_id: 't-1' } })),
      )
      expect(written).not.toMatch(/"(provider|routing|session_id|trace|models|plugins)"|s-1|t-1/)
    })

    test('trap 102: sends no header of the client, and no credential', () => {
      const headers = Object.keys(sent(protocol, everything()).headers ?? {})
      expect(headers.filter(header => /auth|cookie|key|forward|x-request/i.test(header))).toEqual(
        [],
      )
    })

    test('sends unknown parameters unchanged', () => {
      const unknown = { frobnicate: { level: [1, null, 'x'] } }
      expect(sent(protocol, everything({ extra: unknown })).body).toMatchObject(unknown)
    })

    test('throws provider_unavailable for a body that is no answer', () => {
      for (const body of [null, [], 'text', 7, {}, { error: {} }])
        expect(() => protocol.parseAnswer(body, buildTextCall(), buildEndpoint())).toThrow(
          /[Pp]rovider|[Rr]ate/,
        )
    })
  })
}
