import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { parseBody } from '../../../../src/base/body.ts'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { Json } from '../../../../src/base/json.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import { RESPONSES_ERROR_FORMAT } from '../../../../src/translation/dialects/responses/error.ts'
import type { ResponsesRequest } from '../../../../src/translation/dialects/responses/schema.ts'
import { responses } from '../../../../src/translation/dialects/responses.ts'
import { testGateway } from '../../../support/gateway.ts'

/* Every field with values of a wrong type, range and size: a 400 that names it. */

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway()
})
afterAll(() => gateway.close())

const CONTEXT = {
  id: 'gen-1',
  origin: {
    request_id: '',
    http_referer: null,
    title: null,
    user_agent: null,
    region: 'global',
    traceContext: null,
  },
  session_id: null,
  betas: [],
} as const

/** Returns the refusal of a body, or what it became. */
function refusalOf(fields: Json): unknown {
  const text = JSON.stringify({ model: 'acme/small', input: 'Hi', ...fields })
  try {
    const body = parseBody(responses.body, Buffer.from(text)) as ResponsesRequest
    return responses.toCall(gateway, getOperator(gateway), body, { ...CONTEXT, betas: [] })
  } catch (thrown) {
    return thrown
  }
}

function expectRefused(fields: Json, field: string): void {
  const refusal = refusalOf(fields)
  if (!(refusal instanceof GatewayError)) throw new Error(`${field} was accepted`)
  const { error } = RESPONSES_ERROR_FORMAT.renderError(refusal, null) as { error: Json }
  expect([refusal.status, error.param]).toEqual([400, field])
  expect(refusal.message).toContain(field)
}

const HUGE = 1e21
const notText = [7, true, [], {}]
const notNumber = ['1', true, [], {}]
const notInteger = [...notNumber, 1.5, HUGE]
const notBoolean = ['true', 1, [], {}]
const notObject = ['a', 1, true]
const word = ['', 'nonsense', ...notText]
const pairs = (count: number) =>
  Object.fromEntries([...Array(count).keys()].map(i => [`k${i}`, '']))

/** The values that each field refuses, by the field that the refusal names. */
const WRONG: Record<string, unknown[]> = {
  model: ['', ...notText],
  input: [7, true, {}, []],
  instructions: notText,
  temperature: [...notNumber, -0.1, 2.1, HUGE, -HUGE],
  top_p: [...notNumber, -0.1, 1.1, HUGE],
  top_k: [...notInteger, -1],
  frequency_penalty: [...notNumber, -2.1, 2.1, HUGE],
  presence_penalty: [...notNumber, -2.1, 2.1, HUGE],
  top_logprobs: [...notInteger, -1, 21],
  max_output_tokens: [...notInteger, 0, -1],
  max_tool_calls: [...notInteger, 0, -1, 31],
  parallel_tool_calls: notBoolean,
  stream: notBoolean,
  store: [true, ...notBoolean],
  background: [true, ...notBoolean],
  previous_response_id: ['resp_1', 7, {}, []],
  conversation: ['conv_1', {}, 7, { id: 'conv_1' }],
  include: [
    'reasoning.encrypted_content',
    {},
    7,
    new Array(65).fill('reasoning.encrypted_content'),
  ],
  'include.0': [['everything'], [7], ['']],
  modalities: ['text', {}, 7],
  'modalities.0': [['smell'], ['audio'], [7]],
  service_tier: word,
  truncation: word,
  metadata: [...notObject, [], pairs(17)],
  reasoning: [...notObject, { effort: 'low', max_tokens: 9 }],
  'reasoning.effort': word.map(effort => ({ effort })),
  'reasoning.summary': word.map(summary => ({ summary })),
  'reasoning.context': word.map(context => ({ context })),
  'reasoning.mode': word.map(mode => ({ mode })),
  'reasoning.enabled': notBoolean.map(enabled => ({ enabled })),
  'reasoning.max_tokens': [...notInteger, 0, -1].map(max_tokens => ({ max_tokens })),
  text: notObject,
  'text.verbosity': word.map(verbosity => ({ verbosity })),
  'text.format': notObject.map(format => ({ format })),
  'text.format.type': ['', 'xml'].map(type => ({ format: { type } })),
  'text.format.name': ['', 'x'.repeat(65)].map(name => ({
    format: { type: 'json_schema', name, schema: {} },
  })),
  'text.format.schema': [undefined, 'a', 7].map(schema => ({
    format: { type: 'json_schema', name: 'a', schema },
  })),
  'text.format.strict': notBoolean.map(strict => ({
    format: { type: 'json_schema', name: 'a', schema: {}, strict },
  })),
  tools: ['a', 7, {}, new Array(2_049).fill({ type: 'function', name: 'a' })],
  'tools.0': [['a'], [7], [[]]],
  'tools.0.type': [[{ type: '' }], [{ type: 7 }], [{ name: 'a' }]],
  'tools.0.name': ['', 7, 'x'.repeat(65), undefined].map(name => [{ type: 'function', name }]),
  'tools.0.parameters': ['a', 7, []].map(parameters => [
    { type: 'function', name: 'a', parameters },
  ]),
  'tools.0.strict': ['yes', 1].map(strict => [{ type: 'function', name: 'a', strict }]),
  'tools.0.format.syntax': [
    [{ type: 'custom', name: 'a', format: { type: 'grammar', syntax: 'bnf', definition: 'a' } }],
  ],
  'tools.0.format.definition': [
    [{ type: 'custom', name: 'a', format: { type: 'grammar', syntax: 'lark' } }],
  ],
  'tools.0.tools': [
    [{ type: 'namespace', name: 'a' }],
    [{ type: 'namespace', name: 'a', tools: 7 }],
  ],
  'prompt_cache_options.mode': [{ mode: 'explict' }, { mode: 7 }],
  tool_choice: ['', 'any', 7, true],
  'tool_choice.type': [{ type: '' }, { type: 7 }, {}],
  'tool_choice.name': [{ type: 'function' }, { type: 'function', name: '' }],
  'tool_choice.mode': [{ type: 'allowed_tools', tools: [] }],
  prompt: notObject,
  'prompt.id': [{}, { id: '' }, { id: 7 }, { id: 'x'.repeat(201) }],
  'prompt.variables': [7, 'a', []].map(variables => ({ id: 'a', variables })),
  'prompt.variables.b': [7, {}, [], { type: 'input_image' }].map(b => ({
    id: 'a',
    variables: { b },
  })),
  prompt_cache_key: notText,
  safety_identifier: [...notText, 'x'.repeat(257)],
  user: [...notText, 'x'.repeat(257)],
  session_id: [...notText, 'x'.repeat(257)],
  debug: notObject,
  'debug.echo_upstream_body': notBoolean.map(echo_upstream_body => ({ echo_upstream_body })),
  stream_options: notObject,
  provider: notObject,
  'provider.require_parameters': notBoolean.map(require_parameters => ({ require_parameters })),
  models: ['a', {}, 7],
  preset: notText,
  plugins: ['a', {}, 7],
  trace: notObject,
}

for (const [field, values] of Object.entries(WRONG))
  test(`${field} of a wrong type, range or size`, () => {
    const [name = ''] = field.split('.')
    for (const value of values) expectRefused({ [name]: value }, field)
  })

describe('metadata', () => {
  test('has names and texts that are short, and no brackets', () => {
    const long = 'x'.repeat(513)
    for (const metadata of [{ a: long }, { a: 7 }, { [long]: '' }, { 'a[b]': '' }])
      expect(refusalOf({ metadata })).toMatchObject({ status: 400 })
    expect(refusalOf({ metadata: pairs(16) })).toMatchObject({ kind: 'text' })
    expect(refusalOf({ metadata: { ['😀'.repeat(64)]: '' } })).toMatchObject({ kind: 'text' })
    expect(refusalOf({ metadata: { ['😀'.repeat(65)]: '' } })).toMatchObject({ status: 400 })
  })
})

const call = { type: 'function_call', call_id: 'c', name: 'get', arguments: '{}' }
const output = { type: 'function_call_output', call_id: 'c', output: 'one' }
const message = (part: Json) => ({ role: 'user', content: [part] })
const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)])

describe('an item is named by its index', () => {
  const first = { role: 'user', content: 'Hi' }
  test.each<[string, Json, string]>([
    ['300 levels of nesting', { type: 'agent_message', content: deep(300) }, 'input.1'],
    ['an unknown type', { type: 'hologram' }, 'input.1.type'],
    ['a type that is no text', { type: 7 }, 'input.1.type'],
    ['a reference', { type: 'item_reference', id: 'msg_1' }, 'input.1'],
    ['an output without its call', output, 'input.1.call_id'],
    ['a call without an id', { ...call, call_id: undefined }, 'input.1.call_id'],
    ['a call with an empty id', { ...call, call_id: '' }, 'input.1.call_id'],
    ['a call without a name', { ...call, name: '' }, 'input.1.name'],
    ['arguments that are no text', { ...call, arguments: {} }, 'input.1.arguments'],
    ['an unknown part', message({ type: 'smell' }), 'input.1.content.0.type'],
    ['a text that is none', message({ type: 'input_text', text: 7 }), 'input.1.content.0.text'],
    [
      'an unknown detail',
      message({ type: 'input_image', image_url: 'https://a.example/b.png', detail: 'most' }),
      'input.1.content.0.detail',
    ],
    [
      'sound in an unknown format',
      message({ type: 'input_audio', input_audio: { data: '', format: 'ogg' } }),
      'input.1.content.0.input_audio.format',
    ],
    ['an unknown phase', { role: 'assistant', content: '', phase: 'end' }, 'input.1.phase'],
    [
      'thinking that is no text',
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 7 }] },
      'input.1.summary.0.text',
    ],
    [
      'a seal that was forged',
      { type: 'reasoning', summary: [], encrypted_content: 'sealed.e30' },
      'input.1',
    ],
    [
      'a shell call without commands',
      { type: 'shell_call', call_id: 's', action: {} },
      'input.1.action.commands',
    ],
    [
      'a patch of an unknown kind',
      { type: 'apply_patch_call', call_id: 'p', operation: { type: 'move_file' } },
      'input.1.operation.type',
    ],
    [
      'a patch that ended oddly',
      { type: 'apply_patch_call_output', call_id: 'p', status: 'maybe' },
      'input.1.status',
    ],
  ])('%s', (_, item, field) => expectRefused({ input: [first, item] }, field))

  test('two outputs of one call, and one before its call', () => {
    expectRefused({ input: [call, output, output] }, 'input.2.call_id')
    expectRefused({ input: [output, call] }, 'input.0.call_id')
  })

  test('more items than there may be', () => {
    expectRefused({ input: new Array(100_001).fill({ type: 'x' }) }, 'input')
  })
})
