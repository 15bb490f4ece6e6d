import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { parseBody } from '../../../../src/base/body.ts'
import type { Json } from '../../../../src/base/json.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import type { CallContext } from '../../../../src/translation/dialects/dialect.ts'
import type { ResponsesRequest } from '../../../../src/translation/dialects/responses/schema.ts'
import { sealEntries } from '../../../../src/translation/dialects/responses/seal.ts'
import { responses } from '../../../../src/translation/dialects/responses.ts'
import { freezeDeep } from '../../../support/freeze.ts'
import { testGateway } from '../../../support/gateway.ts'

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway()
})

const CONTEXT: CallContext = {
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
}

/** Checks and translates a body, as the route does. */
function callOf(fields: Json): TextCall {
  const bytes = Buffer.from(JSON.stringify({ model: 'acme/small', input: 'Hi', ...fields }))
  const body = parseBody(responses.body, bytes) as ResponsesRequest
  return responses.toCall(gateway, getOperator(gateway), freezeDeep(body), CONTEXT)
}

function refusalOf(fields: Json): unknown {
  try {
    return callOf(fields).messages
  } catch (thrown) {
    return thrown
  }
}

const messagesOf = (...input: unknown[]) => callOf({ input }).messages
const call = { type: 'function_call', call_id: 'call_1', name: 'get', arguments: '{"a":1}' }
const output = { type: 'function_call_output', call_id: 'call_1', output: 'one' }

describe('the input', () => {
  test('is a text of the user, after the instructions', () => {
    expect(callOf({ instructions: 'Be brief' }).messages).toEqual([
      { role: 'system', blocks: [{ type: 'text', text: 'Be brief' }] },
      { role: 'user', blocks: [{ type: 'text', text: 'Hi' }] },
    ])
  })

  test('may have messages in the short and in the full form', () => {
    expect(
      messagesOf(
        { role: 'developer', content: 'Be brief' },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
        {
          type: 'message',
          id: 'msg_1',
          status: 'completed',
          role: 'assistant',
          content: [
            { type: 'output_text', text: 'Hello', annotations: [] },
            { type: 'refusal', refusal: 'No' },
          ],
        },
      ),
    ).toEqual([
      { role: 'developer', blocks: [{ type: 'text', text: 'Be brief' }] },
      { role: 'user', blocks: [{ type: 'text', text: 'Hi' }] },
      {
        role: 'assistant',
        blocks: [
          { type: 'text', text: 'Hello' },
          { type: 'refusal', text: 'No' },
        ],
      },
    ])
  })

  test('may have pictures, files, sound and films', () => {
    const [message] = messagesOf({
      role: 'user',
      content: [
        { type: 'input_image', image_url: 'https://a.example/b.png', detail: 'low' },
        { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
        { type: 'input_file', file_url: 'https://a.example/b.pdf' },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
        { type: 'input_video', video_url: 'https://a.example/b.mp4' },
      ],
    })
    expect(message?.blocks).toEqual([
      { type: 'image', url: 'https://a.example/b.png', detail: 'low', field: 'input.0.content.0' },
      {
        type: 'file',
        file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
        field: 'input.0.content.1',
      },
      {
        type: 'file',
        file: { file_data: 'https://a.example/b.pdf' },
        field: 'input.0.content.2',
      },
      { type: 'audio', data: 'AAAA', format: 'wav' },
      { type: 'video', url: 'https://a.example/b.mp4', field: 'input.0.content.4' },
    ])
  })

  test('makes one message of what the model thought, said and called in a turn', () => {
    const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAA' }
    const said = { type: 'message', role: 'assistant', content: 'Let me see' }
    expect(messagesOf(reasoning, said, call, output)).toEqual([
      {
        role: 'assistant',
        blocks: [
          {
            type: 'reasoning',
            text: null,
            details: [
              {
                type: 'reasoning.encrypted',
                data: 'gAAAA',
                format: 'openai-responses-v1',
                index: 0,
                id: 'rs_1',
              },
            ],
          },
          { type: 'text', text: 'Let me see' },
          { type: 'tool-call', id: 'call_1', name: 'get', input: '{"a":1}' },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', blocks: [{ type: 'text', text: 'one' }] },
    ])
  })

  test('keeps messages of two phases apart', () => {
    const said = (phase: string) => ({ role: 'assistant', content: phase, phase })
    const phases = messagesOf(said('commentary'), said('final_answer')).map(({ extra }) => extra)
    expect(phases).toEqual([{ phase: 'commentary' }, { phase: 'final_answer' }])
  })

  test('keeps items that only providers of this API know as they came', () => {
    const search = { type: 'web_search_call', id: 'ws_1', status: 'completed', action: {} }
    const custom = { type: 'custom_tool_call', call_id: 'c', name: 'sh', input: 'ls' }
    const answer = { type: 'custom_tool_call_output', call_id: 'c', output: 'a.txt' }
    const other = (value: unknown) => ({ type: 'other', dialect: 'responses', value })
    expect(messagesOf(search, custom, answer)).toMatchObject([
      { role: 'assistant', blocks: [other(search), other(custom)] },
      { role: 'user', blocks: [other(answer)] },
    ])
  })

  test('opens sealed reasoning, whoever made it', () => {
    const entries = [
      {
        type: 'reasoning.text',
        text: 'Hm',
        signature: 's',
        format: 'anthropic-claude-v1',
        index: 0,
      },
      { type: 'reasoning.encrypted', data: 'x', format: 'anthropic-claude-v1', index: 1 },
    ]
    const item = {
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'Hm' }],
      encrypted_content: sealEntries(entries),
    }
    expect(messagesOf(item)).toEqual([
      { role: 'assistant', blocks: [{ type: 'reasoning', text: 'Hm', details: entries }] },
    ])
  })
})

describe('a request is refused, and the error names the field', () => {
  const sealed = {
    type: 'reasoning',
    summary: [{ type: 'summary_text', text: 'Hm' }],
    encrypted_content: sealEntries([{ type: 'reasoning.text', text: 'Ah', format: 'unknown' }]),
  }
  const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)])
  test.each<[string, Json, string]>([
    ['store', { store: true }, 'store'],
    ['background', { background: true }, 'background'],
    ['a previous response', { previous_response_id: 'resp_1' }, 'previous_response_id'],
    ['a conversation', { conversation: 'conv_1' }, 'conversation'],
    ['no input', { input: [] }, 'input'],
    ['an item that is no object', { input: ['Hi'] }, 'input.0'],
    ['a reference', { input: [{ type: 'item_reference', id: 'msg_1' }] }, 'input.0'],
    ['an unknown item', { input: [{ type: 'hologram' }] }, 'input.0.type'],
    ['an item without a type', { input: [{ content: 'Hi' }] }, 'input.0.type'],
    ['an unknown role', { input: [{ role: 'critic', content: 'Hi' }] }, 'input.0.role'],
    ['content of a wrong type', { input: [{ role: 'user', content: 7 }] }, 'input.0.content'],
    [
      'an unknown part',
      { input: [{ role: 'user', content: [{ type: 'smell' }] }] },
      'input.0.content.0.type',
    ],
    ['an output without its call', { input: [output] }, 'input.0.call_id'],
    ['two outputs of one call', { input: [call, output, output] }, 'input.2.call_id'],
    ['an output before its call', { input: [output, call] }, 'input.0.call_id'],
    ['reasoning that was changed', { input: [sealed] }, 'input.0'],
    [
      'a seal that was cut',
      { input: [{ ...sealed, encrypted_content: 'sealed.AAAA' }] },
      'input.0',
    ],
    ['300 nested items', { input: [{ type: 'agent_message', content: deep(300) }] }, 'none'],
    ['a name of a tool that is empty', { tools: [{ type: 'function', name: '' }] }, 'tools.0.name'],
    ['an unknown effort', { reasoning: { effort: 'huge' } }, 'reasoning.effort'],
    ['effort and budget', { reasoning: { effort: 'low', max_tokens: 9 } }, 'reasoning'],
    ['a negative bound', { max_output_tokens: -1 }, 'max_output_tokens'],
    ['half a token', { max_output_tokens: 1.5 }, 'max_output_tokens'],
    ['more steps than there may be', { max_tool_calls: 31 }, 'max_tool_calls'],
    ['an unknown truncation', { truncation: 'half' }, 'truncation'],
    ['an unknown format', { text: { format: { type: 'xml' } } }, 'text.format.type'],
    [
      'a format without its schema',
      { text: { format: { type: 'json_schema', name: 'a' } } },
      'text.format.schema',
    ],
    [
      'too much metadata',
      { metadata: Object.fromEntries([...Array(17).keys()].map(i => [`k${i}`, ''])) },
      'metadata',
    ],
    ['two presets', { prompt: { id: 'a' }, preset: 'b' }, 'preset'],
    [
      'a template with a picture',
      { prompt: { id: 'a', variables: { b: { type: 'input_image' } } } },
      'prompt.variables.b',
    ],
    ['an unknown server tool', { tools: [{ type: 'openrouter:magic' }] }, 'tools.0.type'],
  ])('%s', (_, fields, field) => {
    const metadata = field === 'none' ? {} : { metadata: { field } }
    expect(refusalOf(fields)).toMatchObject({ status: 400, ...metadata })
  })
})

describe('the settings', () => {
  test('have their names in the gateway’s own terms', () => {
    const { params, user, extra, echoUpstreamBody } = callOf({
      max_output_tokens: 50,
      temperature: 0.5,
      top_k: 0,
      service_tier: 'fast',
      top_logprobs: 3,
      text: {
        verbosity: 'low',
        format: { type: 'json_schema', name: 'a', schema: {}, strict: true },
      },
      reasoning: { effort: 'low', summary: 'auto', context: 'all_turns' },
      safety_identifier: 'ada',
      include: ['reasoning.encrypted_content'],
      truncation: 'auto',
      metadata: { trip: '7' },
      debug: { echo_upstream_body: true },
    })
    expect(params).toEqual({
      max_tokens: 50,
      temperature: 0.5,
      service_tier: 'priority',
      logprobs: true,
      top_logprobs: 3,
      verbosity: 'low',
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'a', schema: {}, strict: true },
      },
      reasoning: { effort: 'low', summary: 'auto' },
    })
    expect(user).toHaveLength(64)
    expect(extra).toEqual({
      include: ['reasoning.encrypted_content'],
      truncation: 'auto',
      reasoning: { context: 'all_turns' },
    })
    expect(echoUpstreamBody).toBe(true)
  })

  test('may have functions, and tools that only providers of this API know', () => {
    const custom = { type: 'custom', name: 'patch', format: { type: 'text' } }
    const { tools, params } = callOf({
      tools: [
        { type: 'function', name: 'get', parameters: {}, strict: null, defer_loading: true },
        custom,
      ],
      tool_choice: {
        type: 'allowed_tools',
        mode: 'required',
        tools: [{ type: 'function', name: 'get' }],
      },
    })
    expect(tools).toEqual([
      {
        type: 'function',
        name: 'get',
        parameters: {},
        strict: null,
        extra: { defer_loading: true },
      },
      { type: 'other', dialect: 'responses', value: custom },
    ])
    expect<unknown>(params.tool_choice).toEqual({
      type: 'allowed_tools',
      allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'get' } }] },
    })
  })
})
