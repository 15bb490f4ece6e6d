import { describe, expect, test } from 'bun:test'
import type { TextCall } from '../../../../src/core/language/call.ts'
import type { Block } from '../../../../src/core/language/message.ts'
import type { Params } from '../../../../src/core/language/params.ts'
import type { ReasoningDetail } from '../../../../src/core/language/reasoning.ts'
import { request } from '../../../../src/core/protocols/anthropic-messages/request.ts'
import { endpointOf, textCall } from '../../../support/call.ts'

const BUDGETED = 'claude-sonnet-4-5'
const EITHER = 'claude-opus-4-6'
const ADAPTIVE = 'claude-opus-4-8'
const ALWAYS = 'claude-fable-5'

const sent = (more: Partial<TextCall>, upstreamModel: string) =>
  request(textCall(more), endpointOf({ upstreamModel })).body

/** What is sent of the thinking. */
function thought(params: Params, model: string, more: Partial<TextCall> = {}) {
  const { thinking, output_config, max_tokens } = sent({ ...more, params }, model)
  return { thinking, output_config, max_tokens }
}

describe('the wish to think', () => {
  test.each<[string, Params, object]>([
    ['nothing is wished', {}, { max_tokens: 64_000 }],
    [
      'an effort is a share of the bound',
      { max_tokens: 10_000, reasoning: { effort: 'high' } },
      { thinking: { type: 'enabled', budget_tokens: 8_000 }, max_tokens: 10_000 },
    ],
    [
      'a budget is a budget',
      { max_tokens: 10_000, reasoning: { max_tokens: 2_000 } },
      { thinking: { type: 'enabled', budget_tokens: 2_000 }, max_tokens: 10_000 },
    ],
    [
      'plain thinking is medium',
      { max_tokens: 10_000, reasoning: { enabled: true } },
      { thinking: { type: 'enabled', budget_tokens: 5_000 }, max_tokens: 10_000 },
    ],
    ['none is none', { reasoning: { effort: 'none' } }, { max_tokens: 64_000 }],
    ['only not to be shown is no wish', { reasoning: { exclude: true } }, { max_tokens: 64_000 }],
  ])('of a model with a budget: %s', (_what, params, expected) => {
    expect(thought(params, BUDGETED)).toEqual(expected as never)
  })

  test.each<[string, Params, object]>([
    [
      'an effort is an effort',
      { reasoning: { effort: 'high' } },
      { thinking: { type: 'adaptive', display: 'summarized' }, output_config: { effort: 'high' } },
    ],
    [
      'the least is low',
      { reasoning: { effort: 'minimal' } },
      { thinking: { type: 'adaptive', display: 'summarized' }, output_config: { effort: 'low' } },
    ],
    [
      'a budget is its share as an effort',
      { max_tokens: 10_000, reasoning: { max_tokens: 2_000 } },
      {
        thinking: { type: 'adaptive', display: 'summarized' },
        output_config: { effort: 'low' },
        max_tokens: 10_000,
      },
    ],
    [
      'what is not shown is not asked for',
      { reasoning: { effort: 'max', exclude: true } },
      { thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'max' } },
    ],
    ['none is said', { reasoning: { effort: 'none' } }, { thinking: { type: 'disabled' } }],
    [
      'without thinking no effort above high',
      { reasoning: { enabled: false }, verbosity: 'max' },
      { thinking: { type: 'disabled' }, output_config: { effort: 'high' } },
    ],
  ])('of a model that thinks as it sees fit: %s', (_what, params, expected) => {
    expect(thought(params, ADAPTIVE)).toEqual({ max_tokens: 128_000, ...expected } as never)
  })

  test('a model that knows both ways thinks as it sees fit, unless it was given a budget; of efforts it gets the lesser', () => {
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

  test('a model that cannot but think thinks as little as it can', () => {
    expect(thought({ reasoning: { effort: 'none' } }, ALWAYS)).toEqual({
      thinking: undefined,
      output_config: { effort: 'low' },
      max_tokens: 128_000,
    })
    expect(thought({ reasoning: { effort: 'none' } }, 'claude-sonnet-5-5').thinking).toEqual({
      type: 'between_tools',
    })
  })

  test('a model that thinks only when asked to is not asked', () => {
    expect(thought({ reasoning: { effort: 'none' } }, 'claude-opus-4-7')).toEqual({
      max_tokens: 128_000,
    } as never)
  })

  test('a model that does not think is not asked to', () => {
    expect(thought({ reasoning: { effort: 'high' }, max_tokens: 10 }, 'claude-3-5-haiku')).toEqual({
      max_tokens: 10,
    } as never)
  })

  test('who speaks this API and names no effort and no display means the model’s own', () => {
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

  test('trap 49: while it thinks, the caller chooses no temperature', () => {
    const params = { reasoning: { effort: 'low' }, temperature: 0.2, top_p: 0.5, top_k: 5 }
    for (const model of [BUDGETED, EITHER])
      for (const name of ['temperature', 'top_p', 'top_k'])
        expect(sent({ params }, model)).not.toHaveProperty(name)
    expect(sent({ params: { ...params, reasoning: { effort: 'none' } } }, EITHER).temperature).toBe(
      0.2,
    )
  })

  test.each<[string, Params]>([
    ['a tool that must be called', { tool_choice: 'required' }],
    [
      'a certain tool that must be called',
      { tool_choice: { type: 'function', function: { name: 'look' } } },
    ],
    ['an answer that is a call', { response_format: { type: 'json_object' } }],
  ])('trap 29: before %s there is no thinking', (_what, params) => {
    const tools = [{ type: 'function' as const, name: 'look' }]
    for (const model of [BUDGETED, EITHER]) {
      const body = sent({ tools, params: { ...params, reasoning: { effort: 'high' } } }, model)
      expect(body).not.toHaveProperty('thinking')
      expect(body.tool_choice).toBeDefined()
    }
  })

  test('nor after the beginning of an answer', () => {
    const turns: TextCall['turns'] = [
      { role: 'user', blocks: [{ type: 'text', text: 'a' }] },
      { role: 'assistant', blocks: [{ type: 'text', text: 'b' }] },
    ]
    expect(sent({ turns, params: { reasoning: { effort: 'high' } } }, BUDGETED)).not.toHaveProperty(
      'thinking',
    )
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

/** A tool loop that has come to the first result, with this thinking before the call. */
const loop = (...before: Block[]): TextCall['turns'] => [
  { role: 'user', blocks: [{ type: 'text', text: 'a' }] },
  { role: 'assistant', blocks: [...before, CALL] },
  { role: 'tool', tool_call_id: '1', blocks: [{ type: 'text', text: 'r' }] },
]

const EFFORT = { params: { reasoning: { effort: 'high' } } }
const answered = (turns: TextCall['turns'], model = BUDGETED) =>
  (sent({ ...EFFORT, turns }, model).messages as { content: unknown[] }[])[1]?.content

describe('thinking that comes back', () => {
  test('trap 93: it stands first, with its signature byte by byte', () => {
    expect(answered(loop(thinking(SIGNED)))).toEqual([
      { type: 'thinking', thinking: 'So be it', signature: 'EpAE+/==' },
      { type: 'tool_use', id: '1', name: 'look', input: {} },
    ])
    expect(sent({ ...EFFORT, turns: loop(thinking(SIGNED)) }, BUDGETED).thinking).toBeDefined()
  })

  test('trap 94: a signature without words is thinking too, and what is hidden goes back as it came', () => {
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
    ['another provider’s', thinking({ ...SIGNED, format: 'google-gemini-v1' })],
    ['unsigned', thinking({ ...SIGNED, signature: undefined })],
    ['unsigned, with an empty signature', thinking({ ...SIGNED, signature: '' })],
    ['plain words', { type: 'reasoning', text: 'So be it', details: null }],
    ['of a kind nobody knows', thinking({ type: 'reasoning.odd', ...FORMAT })],
  ])('trap 96: %s is left out', (_what, block) => {
    expect(answered(loop(block))).toEqual([{ type: 'tool_use', id: '1', name: 'look', input: {} }])
  })

  test('trap 93: a loop that lost its thinking goes on without, where the model thinks by budget', () => {
    expect(sent({ ...EFFORT, turns: loop() }, BUDGETED)).not.toHaveProperty('thinking')
    expect(sent({ ...EFFORT, turns: loop() }, ADAPTIVE).thinking).toEqual({
      type: 'adaptive',
      display: 'summarized',
    })
  })

  test('what counts is how the loop began', () => {
    const again: TextCall['turns'] = [
      { role: 'assistant', blocks: [{ ...CALL, id: '2' }] },
      { role: 'tool', tool_call_id: '2', blocks: [{ type: 'text', text: 'r' }] },
    ]
    expect(
      sent({ ...EFFORT, turns: [...loop(thinking(SIGNED)), ...again] }, BUDGETED),
    ).toHaveProperty('thinking')
    expect(sent({ ...EFFORT, turns: [...loop(), ...again] }, BUDGETED)).not.toHaveProperty(
      'thinking',
    )
  })

  test('a loop that is over is no loop', () => {
    const over: TextCall['turns'] = [
      ...loop(),
      { role: 'assistant', blocks: [{ type: 'text', text: 'b' }] },
      { role: 'user', blocks: [{ type: 'text', text: 'c' }] },
    ]
    expect(sent({ ...EFFORT, turns: over }, BUDGETED)).toHaveProperty('thinking')
  })

  test('trap 9: a turn of nothing but thinking is left out', () => {
    const turns: TextCall['turns'] = [
      { role: 'user', blocks: [{ type: 'text', text: 'a' }] },
      { role: 'assistant', blocks: [thinking(SIGNED)] },
      { role: 'user', blocks: [{ type: 'text', text: 'b' }] },
    ]
    expect(sent({ turns }, BUDGETED).messages).toEqual([
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
