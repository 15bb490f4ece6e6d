import fc from 'fast-check'
import type { TextCall } from '../../../src/language/call.ts'
import type { Message } from '../../../src/language/message.ts'
import type { Params } from '../../../src/language/params.ts'
import type { Tool } from '../../../src/language/tool.ts'
import { buildTextCall } from '../../support/call.ts'
import type { KindSample } from '../kind.ts'
import { blocks, texts, values } from './marked.ts'

/** Messages of any role, with blocks of any type. */
export const messages: fc.Arbitrary<Message> = fc.record(
  {
    role: fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool'),
    blocks: fc.array(blocks, { maxLength: 4 }),
    name: texts,
    tool_call_id: fc.constant('call_1'),
    extra: values,
  },
  { requiredKeys: ['role', 'blocks'] },
)

const tools: fc.Arbitrary<Tool> = fc.oneof(
  fc.record({
    type: fc.constant('function' as const),
    name: fc.constant('get_weather'),
    description: texts,
    parameters: values,
  }),
  fc.record({
    type: fc.constant('other' as const),
    dialect: fc.constant('messages' as const),
    value: fc.record({
      type: fc.constant('web_search_20250305'),
      max_uses: fc.nat(20),
      note: texts,
    }),
  }),
)

const tokens = fc.integer({ min: 1, max: 40_000 })

const params: fc.Arbitrary<Params> = fc.record(
  {
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    top_k: fc.nat(100),
    max_tokens: tokens,
    seed: fc.integer(),
    stop: fc.constant(['END']),
    logprobs: fc.boolean(),
    prediction: fc.record({ type: fc.constant('content'), content: texts }),
    response_format: fc.record({
      type: fc.constant('json_schema' as const),
      json_schema: fc.record({ name: fc.constant('city'), schema: values }),
    }),
    tool_choice: fc.constantFrom('none', 'auto', 'required'),
    parallel_tool_calls: fc.boolean(),
    reasoning: fc.record(
      {
        effort: fc.constantFrom('none', 'low', 'high'),
        max_tokens: tokens,
        enabled: fc.boolean(),
        exclude: fc.boolean(),
      },
      { requiredKeys: [] },
    ),
    verbosity: fc.constant('low'),
    service_tier: fc.constant('flex'),
    modalities: fc.constant(['text', 'audio']),
    web_search_options: fc.record({ max_uses: fc.nat(20) }, { requiredKeys: [] }),
    prompt_cache_key: fc.constant('k'),
  },
  { requiredKeys: [] },
)

const extra = fc.record(
  {
    n: fc.nat(4),
    max_output_tokens: fc.oneof(tokens, tokens.map(String)),
    n_predict: tokens,
    hologram: values,
  },
  { requiredKeys: [] },
)

/** The sample of text. */
export const sample: KindSample<'text'> = {
  calls: fc
    .record(
      {
        messages: fc.array(messages, { minLength: 1, maxLength: 4 }),
        tools: fc.array(tools, { maxLength: 2 }),
        params,
        extra,
        stream: fc.boolean(),
        requiredCapabilities: fc.subarray<NonNullable<TextCall['requiredCapabilities']>[number]>([
          'reasoning',
          'web_search',
        ]),
      },
      { requiredKeys: ['messages', 'tools', 'params', 'extra'] },
    )
    .map(buildTextCall),
  isUnreadable: () => false,
  variants: [':thinking', ':online'],
  content: [
    { type: 'text-delta', choice: 0, text: 'Hi' },
    { type: 'refusal-delta', choice: 1, text: 'No' },
    { type: 'reasoning-delta', choice: 0, text: 'Hmm', details: [] },
    { type: 'tool-call-start', choice: 0, index: 0, id: 'call_1', name: 'get_weather' },
    { type: 'image', choice: 0, url: 'data:image/png;base64,AAAA' },
    { type: 'audio-delta', choice: 0, audio: { data: 'AAAA' } },
    { type: 'annotation', choice: 0, annotation: null },
    { type: 'other', choice: 0, dialect: 'messages', value: {} },
  ],
}
