import { describe, expect, test } from 'bun:test'
import { kinds } from '../../../src/engine/kinds.ts'
import type { CallBase, TextCall } from '../../../src/language/call.ts'
import type { EmbeddingCall } from '../../../src/language/embedding.ts'
import type { Block } from '../../../src/language/message.ts'
import type { Params } from '../../../src/language/params.ts'
import type { Kind, Work } from '../../../src/language/work.ts'
import type { Endpoint } from '../../../src/resources/models/catalog.ts'
import type { Protocol } from '../../../src/translation/protocols/protocol.ts'
import {
  buildEmbeddingCall,
  buildImageCall,
  buildRerankCall,
  buildSpeechCall,
  buildTextCall,
  buildTranscriptionCall,
  buildVideoCall,
} from '../../support/call.ts'
import { freezeDeep } from '../../support/freeze.ts'

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const text = (said: string): Block => ({ type: 'text', text: said })

/** Builds a call with every kind of field and content. */
const buildFullTextCall = (more: Partial<TextCall> = {}): TextCall =>
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

/** Builds a call with one text and every parameter: some models take no more than one text. */
const buildFullEmbeddingCall = (more: Partial<EmbeddingCall> = {}): EmbeddingCall =>
  buildEmbeddingCall({ params: { dimensions: 256, input_type: 'search_query' }, ...more })

const FULL_CALLS: { [K in Kind]: (more?: Partial<CallBase & Extra>) => Work[K]['call'] } = {
  text: buildFullTextCall,
  embedding: buildFullEmbeddingCall,
  rerank: more => buildRerankCall({ params: { top_n: 1 }, ...more }),
  // Unknown fields are refused before they are a call's.
  image: ({ extra: _, ...more } = { extra: {} }) => buildImageCall(more),
  speech: ({ extra: _, ...more } = { extra: {} }) => buildSpeechCall(more),
  transcription: ({ extra: _, ...more } = { extra: {} }) => buildTranscriptionCall(more),
  video: ({ extra: _, ...more } = { extra: {} }) => buildVideoCall(more),
}

type Extra = Pick<TextCall, 'extra'>

const REFUSES_UNKNOWN = new Set<Kind>(['image', 'speech', 'transcription', 'video'])

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

/** Builds the request for a call as an attempt passes it on. */
function buildRequest<K extends Kind>(
  kind: K,
  protocol: Protocol<K>,
  call: Work[K]['call'],
  endpoint: Endpoint,
) {
  const { removeNames } = kinds[kind].understanding
  return protocol.buildRequest(protocol.acceptsNames ? call : removeNames(call), endpoint)
}

/** Tests what the requests of every protocol promise, whatever the kind of work. */
export function testAnyRequest<K extends Kind>(
  kind: K,
  name: string,
  protocol: Protocol<K>,
  endpoint: Endpoint,
): void {
  const buildCall = FULL_CALLS[kind]
  const send = (more?: Partial<CallBase & Extra>) =>
    buildRequest(kind, protocol, buildCall(more), endpoint)

  describe(name, () => {
    test('trap 12: builds the same request again for a retry, and does not change the call', () => {
      const call = freezeDeep(buildCall())
      const first = JSON.stringify(buildRequest(kind, protocol, call, endpoint))
      expect(JSON.stringify(buildRequest(kind, protocol, call, endpoint))).toBe(first)
    })

    test('trap 57: sends no parameter meant for the gateway', () => {
      const routing = { order: ['local'], zdr: true }
      const written = JSON.stringify(
        send({ routing, session_id: 's-1', trace: { trace_id: 't-1' }, preset_id: 'p-1' }),
      )
      expect(written).not.toMatch(
        /"(provider|routing|session_id|trace|models|plugins|preset)"|s-1|t-1|p-1/,
      )
    })

    test('trap 102: sends no header of the client, and no credential', () => {
      const headers = Object.keys(send().headers ?? {})
      expect(headers.filter(header => /auth|cookie|key|forward|x-request/i.test(header))).toEqual(
        [],
      )
    })

    // Where unknown fields may cost something, they are refused and never a call's.
    if (!REFUSES_UNKNOWN.has(kind))
      test('sends unknown parameters unchanged', () => {
        const unknown = { frobnicate: { level: [1, null, 'x'] } }
        // Some have them in each of several requests within the body.
        const [body] = [
          send({ extra: unknown }).body.requests ?? send({ extra: unknown }).body,
        ].flat()
        expect(body).toMatchObject(unknown)
      })

    test('throws provider_unavailable for a body that is no answer', () => {
      for (const body of [null, [], 'text', 7, {}, { error: {} }])
        expect(() => protocol.parseAnswer(body, buildCall(), endpoint)).toThrow(
          /[Pp]rovider|[Rr]ate/,
        )
    })
  })
}

/** Tests what the requests of every protocol for text promise. */
export function testTextRequests(
  name: string,
  protocol: Protocol<'text'>,
  endpoint: Endpoint,
): void {
  const send = (more?: Partial<TextCall>) =>
    buildRequest('text', protocol, buildFullTextCall(more), endpoint)

  describe(name, () => {
    test('trap 12: sends a name once, and all parameters the same again', () => {
      const call = freezeDeep(buildFullTextCall({ params: { ...PARAMS } }))
      const first = JSON.stringify(buildRequest('text', protocol, call, endpoint))
      expect(JSON.stringify(buildRequest('text', protocol, call, endpoint))).toBe(first)
      expect(first.match(/ada/g)).toHaveLength(1)
    })

    test('trap 15: passes on an image’s detail or leaves it out, without an error', () => {
      const written = JSON.stringify(send().body)
      expect(written).toContain('iVBORw0KGgo=')
    })

    test('trap 52: passes on the number of answers by the provider’s name, or omits it', () => {
      const { body } = send({ extra: { n: 2 } })
      expect(
        JSON.stringify(body).match(/"(n|candidateCount|num_generations)":2/g)?.length ?? 0,
      ).toBeLessThanOrEqual(1)
    })

    test('trap 53: leaves out sampling parameters that the provider does not have', () => {
      expect(() => send({ params: PARAMS })).not.toThrow()
    })
  })
}
