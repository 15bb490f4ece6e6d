import { describe, expect, test } from 'bun:test'
import type { TextCall } from '../../../../src/language/call.ts'
import type { Block } from '../../../../src/language/message.ts'
import type { Params } from '../../../../src/language/params.ts'
import type { ReasoningDetail } from '../../../../src/language/reasoning.ts'
import { buildRequest } from '../../../../src/translation/protocols/anthropic-messages/request.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'

const BUDGETED = 'claude-sonnet-4-5'
const EITHER = 'claude-opus-4-6'
const ADAPTIVE = 'claude-opus-4-8'
const ALWAYS = 'claude-fable-5'

const sent = (more: Partial<TextCall>, upstreamModel: string) =>
  buildRequest(buildTextCall(more), buildEndpoint({ upstreamModel })).body

/** Returns the thinking parameters of a request. */
function thought(params: Params, model: string, more: Partial<TextCall> = {}) {
  const { thinking, output_config, max_tokens } = sent({ ...more, params }, model)
  return { thinking, output_config, max_tokens }
}

describe('requested thinking', () => {
  test.each<[string, Params, object]>([
    ['nothing is requested', {}, { max_tokens: 64_000 }],
    [
      'an effort becomes a share of the bound',
      { max_tokens: 10_000, reasoning: { effort: 'high' } },
      { thinking: { type: 'enabled', budget_tokens: 8_000 }, max_tokens: 10_000 },
    ],
    [
      'a budget is sent as it is',
      { max_tokens: 10_000, reasoning: { max_tokens: 2_000 } },
      { thinking: { type: 'enabled', budget_tokens: 2_000 }, max_tokens: 10_000 },
    ],
    [
      'plain thinking is medium',
      { max_tokens: 10_000, reasoning: { enabled: true } },
      { thinking: { type: 'enabled', budget_tokens: 5_000 }, max_tokens: 10_000 },
    ],
    ['none omits thinking', { reasoning: { effort: 'none' } }, { max_tokens: 64_000 }],
    ['hiding it alone requests nothing', { reasoning: { exclude: true } }, { max_tokens: 64_000 }],
  ])('for a model with a budget: %s', (_what, params, expected) => {
    expect(thought(params, BUDGETED)).toEqual(expected as never)
  })

  test.each<[string, Params, object]>([
    [
      'an effort is sent as it is',
      { reasoning: { effort: 'high' } },
      { thinking: { type: 'adaptive', display: 'summarized' }, output_config: { effort: 'high' } },
    ],
    [
      'minimal becomes low',
      { reasoning: { effort: 'minimal' } },
      { thinking: { type: 'adaptive', display: 'summarized' }, output_config: { effort: 'low' } },
    ],
    [
      'a budget becomes the nearest effort',
      { max_tokens: 10_000, reasoning: { max_tokens: 2_000 } },
      {
        thinking: { type: 'adaptive', display: 'summarized' },
        output_config: { effort: 'low' },
        max_tokens: 10_000,
      },
    ],
    [
      'hidden thinking is omitted',
      { reasoning: { effort: 'max', exclude: true } },
      { thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'max' } },
    ],
    [
      'none becomes disabled',
      { reasoning: { effort: 'none' } },
      { thinking: { type: 'disabled' } },
    ],
    [
      'effort is at most high without thinking',
      { reasoning: { enabled: false }, verbosity: 'max' },
      { thinking: { type: 'disabled' }, output_config: { effort: 'high' } },
    ],
  ])('for an adaptive model: %s', (_what, params, expected) => {
    expect(thought(params, ADAPTIVE)).toEqual({ max_tokens: 128_000, ...expected } as never)
  })

  test('prefers adaptive thinking to a budget, and the lower of two efforts', () => {
    expect(thought({ reasoning: { effort: 'xhigh' } }, EITHER)).toMatchObject({
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high' },
    })
    expect(thought({ reasoning: { max_tokens: 4_000 } }, EITHER)).toEqual({
      thinking: { type: 'enabled', budget_tokens: 4_000 },
      output_config: undefined,
      max_tokens: 128_000,
    })
  })

  test('uses the lowest effort where thinking cannot be turned off', () => {
    expect(thought({ reasoning: { effort: 'none' } }, ALWAYS)).toEqual({
      thinking: undefined,
      output_config: { effort: 'low' },
      max_tokens: 128_000,
    })
    expect(thought({ reasoning: { effort: 'none' } }, 'claude-sonnet-5-5').thinking).toEqual({
      type: 'between_tools',
    })
  })

  test('omits thinking for a model that thinks only on request', () => {
    expect(thought({ reasoning: { effort: 'none' } }, 'claude-opus-4-7')).toEqual({
      max_tokens: 128_000,
    } as never)
  })

  test('omits thinking for a model without it', () => {
    expect(thought({ reasoning: { effort: 'high' }, max_tokens: 10 }, 'claude-3-5-haiku')).toEqual({
      max_tokens: 10,
    } as never)
  })

  test('leaves effort and display to the model for clients of this dialect', () => {
    expect(thought({ reasoning: { enabled: true } }, ADAPTIVE, { dialect: 'messages' })).toEqual({
      thinking: { type: 'adaptive' },
      output_config: undefined,
      max_tokens: 128_000,
    })
    expect(
      thought({ reasoning: { enabled: true, summary: 'auto' } }, ADAPTIVE, { dialect: 'messages' })
        .thinking,
    ).toEqual({
      type: 'adaptive',
      display: 'summarized',
    })
  })

  test.each([
    [500, undefined, 1_024, 1_524],
    [1_500, 4_000, 4_000, 5_500],
    [1, 1, 1_024, 1_025],
    [60_000, 60_000, 4_000, 64_000],
    [64_000, 70_000, 1_024, 64_000],
  ])(
    'trap 48: within %d tokens a budget of %p is %d, and the bound %d',
    (max_tokens, wish, budget_tokens, raised) => {
      const reasoning = wish === undefined ? { effort: 'low' } : { max_tokens: wish }
      const given = thought({ max_tokens, reasoning }, BUDGETED)
      expect(given).toEqual({
        thinking: { type: 'enabled', budget_tokens },
        max_tokens: raised,
      } as never)
    },
  )

  test('trap 49: omits the temperature while thinking', () => {
    const params = { reasoning: { effort: 'low' }, temperature: 0.2, top_p: 0.5, top_k: 5 }
    for (const model of [BUDGETED, EITHER])
      for (const name of ['temperature', 'top_p', 'top_k'])
        expect(sent({ params }, model)).not.toHaveProperty(name)
    expect(sent({ params: { ...params, reasoning: { effort: 'none' } } }, EITHER).temperature).toBe(
      0.2,
    )
  })

  test.each<[string, Params]>([
    ['a required tool call', { tool_choice: 'required' }],
    ['a forced tool', { tool_choice: { type: 'function', function: { name: 'look' } } }],
    ['an answer tool', { response_format: { type: 'json_object' } }],
  ])('trap 29: omits thinking before %s', (_what, params) => {
    const tools = [{ type: 'function' as const, name: 'look' }]
    for (const model of [BUDGETED, EITHER]) {
      const body = sent({ tools, params: { ...params, reasoning: { effort: 'high' } } }, model)
      expect(body).not.toHaveProperty('thinking')
      expect(body.tool_choice).toBeDefined()
    }
  })

  test('omits thinking with a prefill', () => {
    const messages: TextCall['messages'] = [
      { role: 'user', blocks: [{ type: 'text', text: 'a' }] },
      { role: 'assistant', blocks: [{ type: 'text', text: 'b' }] },
    ]
    expect(
      sent({ messages, params: { reasoning: { effort: 'high' } } }, BUDGETED),
    ).not.toHaveProperty('thinking')
  })
})

const FORMAT = { format: 'anthropic-claude-v1', index: 0 }
const SIGNED = { type: 'reasoning.text', text: 'So be it', signature: 'EpAE+/==', ...FORMAT }
const thinking = (...details: ReasoningDetail[]): Block => ({
  type: 'reasoning',
  text: 'So be it',
  details,
})
const CALL: Block = { type: 'tool-call', id: '1', name: 'look', input: '{}' }

/** Returns a tool loop up to the first result, with this thinking before the call. */
const loop = (...before: Block[]): TextCall['messages'] => [
  { role: 'user', blocks: [{ type: 'text', text: 'a' }] },
  { role: 'assistant', blocks: [...before, CALL] },
  { role: 'tool', tool_call_id: '1', blocks: [{ type: 'text', text: 'r' }] },
]

const EFFORT = { params: { reasoning: { effort: 'high' } } }
const answered = (messages: TextCall['messages'], model = BUDGETED) =>
  (sent({ ...EFFORT, messages }, model).messages as { content: unknown[] }[])[1]?.content

describe('thinking in the history', () => {
  test('trap 93: comes first, with its signature byte for byte', () => {
    expect(answered(loop(thinking(SIGNED)))).toEqual([
      { type: 'thinking', thinking: 'So be it', signature: 'EpAE+/==' },
      { type: 'tool_use', id: '1', name: 'look', input: {} },
    ])
    expect(sent({ ...EFFORT, messages: loop(thinking(SIGNED)) }, BUDGETED).thinking).toBeDefined()
  })

  test('trap 94: keeps signatures without text and redacted thinking', () => {
    const details = [
      { ...SIGNED, text: '' },
      { type: 'reasoning.encrypted', data: 'opaque', ...FORMAT, index: 1 },
    ]
    expect(answered(loop(thinking(...details)))?.slice(0, 2)).toEqual([
      { type: 'thinking', thinking: '', signature: 'EpAE+/==' },
      { type: 'redacted_thinking', data: 'opaque' },
    ])
  })

  test.each<[string, Block]>([
    ['another provider’s thinking', thinking({ ...SIGNED, format: 'google-gemini-v1' })],
    ['unsigned thinking', thinking({ ...SIGNED, signature: undefined })],
    ['thinking with an empty signature', thinking({ ...SIGNED, signature: '' })],
    ['text alone', { type: 'reasoning', text: 'So be it', details: null }],
    ['an unknown kind of detail', thinking({ type: 'reasoning.odd', ...FORMAT })],
  ])('trap 96: omits %s', (_what, block) => {
    expect(answered(loop(block))).toEqual([{ type: 'tool_use', id: '1', name: 'look', input: {} }])
  })

  test('trap 93: turns thinking off in a tool loop that lost it, for budget models', () => {
    expect(sent({ ...EFFORT, messages: loop() }, BUDGETED)).not.toHaveProperty('thinking')
    expect(sent({ ...EFFORT, messages: loop() }, ADAPTIVE).thinking).toEqual({
      type: 'adaptive',
      display: 'summarized',
    })
  })

  test('looks at the start of the tool loop', () => {
    const again: TextCall['messages'] = [
      { role: 'assistant', blocks: [{ ...CALL, id: '2' }] },
      { role: 'tool', tool_call_id: '2', blocks: [{ type: 'text', text: 'r' }] },
    ]
    expect(
      sent({ ...EFFORT, messages: [...loop(thinking(SIGNED)), ...again] }, BUDGETED),
    ).toHaveProperty('thinking')
    expect(sent({ ...EFFORT, messages: [...loop(), ...again] }, BUDGETED)).not.toHaveProperty(
      'thinking',
    )
  })

  test('ignores a finished tool loop', () => {
    const over: TextCall['messages'] = [
      ...loop(),
      { role: 'assistant', blocks: [{ type: 'text', text: 'b' }] },
      { role: 'user', blocks: [{ type: 'text', text: 'c' }] },
    ]
    expect(sent({ ...EFFORT, messages: over }, BUDGETED)).toHaveProperty('thinking')
  })

  test('trap 9: omits a message of nothing but thinking', () => {
    const messages: TextCall['messages'] = [
      { role: 'user', blocks: [{ type: 'text', text: 'a' }] },
      { role: 'assistant', blocks: [thinking(SIGNED)] },
      { role: 'user', blocks: [{ type: 'text', text: 'b' }] },
    ]
    expect(sent({ messages }, BUDGETED).messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ])
  })
})
