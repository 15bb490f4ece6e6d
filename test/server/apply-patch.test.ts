import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { LOOP_PROTOCOLS, type LoopStage, openLoopStage } from '../support/tool-loop.ts'

const PATCH = { type: 'update_file', path: 'a.txt', diff: '@@\n-a\n+b\n' }
const TOOLS = [{ type: 'openrouter:apply_patch' }]

let stage: LoopStage
let input: Json
beforeAll(async () => {
  stage = await openLoopStage(({ results }) =>
    results.length > 0
      ? { answer: { text: 'Done.', finish: 'stop' } }
      : {
          answer: {
            calls: [{ id: 'call_1', name: 'apply_patch', input: JSON.stringify(input) }],
            finish: 'tool_calls',
          },
        },
  )
})
afterAll(() => stage.close())

describe.each(LOOP_PROTOCOLS)('a patch by a model of %s', protocol => {
  const model = `acme/${protocol}`

  test.each([false, true])('is for its client, who answers; streamed %p', async stream => {
    input = PATCH
    stage.heard.length = 0
    const { raw, uses, finish } = await stage.ask('responses', { model, stream, tools: TOOLS })
    expect([uses, finish]).toMatchObject([
      [{ type: 'apply_patch_call', status: 'completed', operation: PATCH }],
      'completed',
    ])
    expect(stage.heard).toHaveLength(1)
    if (stream)
      expect(raw.map(({ type }) => type).filter(type => String(type).includes('item'))).toEqual([
        'response.output_item.added',
        'response.output_item.done',
      ])
    const result = { type: 'apply_patch_call_output', call_id: uses[0]?.call_id }
    const after = await stage.ask('responses', {
      model,
      tools: TOOLS,
      input: [
        { role: 'user', content: 'Hi' },
        uses[0],
        { ...result, status: 'failed', output: 'No such file' },
      ],
    })
    expect(after.text).toBe('Done.')
    const heard = stage.heard.at(-1)
    expect(heard?.calls.map(({ name, input }) => [name, JSON.parse(input)])).toEqual([
      ['apply_patch', PATCH],
    ])
    expect(heard?.results[0]?.text).toBe('failed: No such file')
  })
})

test.each([
  {},
  { type: 'move_file', path: 'a' },
  { type: 'update_file', path: 'a' },
  { type: 'delete_file', path: 7 },
])('a patch that is none is told to the model: %j', async wrong => {
  input = wrong
  const { text, uses } = await stage.ask('responses', { tools: TOOLS })
  expect([text, uses.map(({ status }) => status)]).toEqual(['Done.', ['incomplete']])
})

test('the provider’s own tool reaches it as it is', async () => {
  const tools = [{ type: 'gateway:apply_patch', parameters: { engine: 'native' } }]
  input = PATCH
  const { status } = await stage.ask('responses', { model: 'acme/openai-responses', tools })
  expect([status, stage.heard.at(-1)?.tools.length]).toEqual([200, 1])
})

test.each(['chat', 'messages'] as const)('%s has no form for it', async door => {
  const { status, error } = await stage.ask(door, { tools: TOOLS })
  expect([status, error?.message]).toEqual([
    400,
    `tools.0.type: expected a tool that ${door} has a form for`,
  ])
})
