import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import type { ServerTool, ToolInvocation, ToolResult } from '../../src/extensions/server-tool.ts'
import { datetime } from '../../src/extensions/tools/datetime.ts'
import { toolSearch } from '../../src/extensions/tools/tool-search.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import { createPreset } from '../../src/resources/presets.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import type { ReceivedRequest, ScriptedAnswer } from '../support/fake-providers/fake-provider.ts'
import { expectBooks } from '../support/invariants.ts'
import { DOORS, type Door, type LoopStage, openLoopStage, TURN } from '../support/tool-loop.ts'

let stage: LoopStage | undefined
afterEach(async () => {
  await stage?.close()
  stage = undefined
})

const open = async (...given: Parameters<typeof openLoopStage>): Promise<LoopStage> => {
  stage = await openLoopStage(...given)
  return stage
}

type Run = (invocation: ToolInvocation) => ToolResult | Promise<ToolResult>

/** Creates a tool that runs this, and has a price if one is given. */
const createTool = (name: string, run: Run, price?: bigint): ServerTool => ({
  name,
  schema: datetime.schema,
  readOptions: () => ({}),
  findObstacle: () => null,
  listFunctions: () => [{ name, description: name, parameters: { type: 'object' } }],
  run: async (_, invocation) => run(invocation),
  ...(price === undefined ? {} : { priceUse: () => price }),
})

const echo = createTool('echo', ({ input }) => ({ text: JSON.stringify(input), isError: false }))

const say = (text: string): { answer: ScriptedAnswer } => ({ answer: { text, finish: 'stop' } })

/** Answers with calls of these functions. */
const call = (...names: string[]): { answer: ScriptedAnswer } => ({
  answer: {
    calls: names.map((name, i) => ({ id: `call_${i}`, name, input: `{"n":${i}}` })),
    finish: 'tool_calls',
  },
})

/** Calls the tool as long as it may, and ends with words when it may not. */
const forever =
  (...names: string[]): Scenario =>
  ({ choice }) =>
    choice === 'none' ? say('Enough.') : call(...names)

const ECHO = { tools: [{ type: 'gateway:echo' }] }
const toFunction = (door: Door, name: string): Json =>
  door === 'chat'
    ? { type: 'function', function: { name, parameters: { type: 'object' } } }
    : door === 'messages'
      ? { name, input_schema: { type: 'object' } }
      : { type: 'function', name, parameters: { type: 'object' } }

const MODES = DOORS.flatMap(door => [false, true].map(stream => [door, stream] as const))

describe('a loop', () => {
  test.each(MODES)(
    'runs what the model asks for in parallel: %s, streamed %p',
    async (door, stream) => {
      const both = Promise.withResolvers<void>()
      let running = 0
      const slow = createTool('slow', async ({ input }) => {
        running += 1
        if (running === 2) both.resolve()
        await both.promise
        return { text: `result ${input.n}`, isError: false }
      })
      const { ask, ...rest } = bind(
        await open(heard => (heard.results.length > 0 ? say('Both.') : call('slow', 'slow')), {
          tools: [slow],
          limit: 1,
        }),
      )
      const reading = await ask(door, { stream, tools: [{ type: 'openrouter:slow' }] })
      expect([reading.text, reading.calls, reading.error]).toEqual(['Both.', [], null])
      expect(rest.stage.heard[1]?.results.map(({ text }) => text)).toEqual(['result 0', 'result 1'])
      expect(rest.stage.generations).toMatchObject([{ total_cost: 2n * TURN }])
      const counts = { tool_calls_requested: 2, tool_calls_executed: 2, web_search_requests: 0 }
      if (door !== 'messages') expect(reading.usage.server_tool_use_details).toEqual(counts)
      await expectBooks(rest.stage)
    },
  )

  test.each(MODES)(
    'with functions of the client too does both, and ends: %s, streamed %p',
    async (door, stream) => {
      const { ask, stage } = bind(
        await open(() => call('echo', 'mine', 'echo', 'mine'), { tools: [echo] }),
      )
      const tools = [{ type: 'gateway:echo' }, toFunction(door, 'mine')]
      const reading = await ask(door, { stream, tools })
      expect(reading.calls.map(({ name, input }) => [name, input])).toEqual([
        ['mine', { n: 1 }],
        ['mine', { n: 3 }],
      ])
      const uses = reading.uses.filter(({ type }) => type !== 'x')
      expect(uses).toHaveLength(2)
      const finish = { chat: 'tool_calls', messages: 'tool_use', responses: 'completed' }
      expect([reading.finish, stage.heard.length]).toEqual([finish[door], 1])
    },
  )

  test.each(MODES)('leaves calls of clients alone: %s, streamed %p', async (door, stream) => {
    const { ask, stage } = bind(await open(() => call('mine'), { tools: [echo] }))
    const tools = [{ type: 'gateway:echo' }, toFunction(door, 'mine')]
    const reading = await ask(door, { stream, tools })
    expect([reading.calls.length, reading.uses, stage.heard.length]).toEqual([1, [], 1])
  })

  test('tells the model of functions that nobody has, and of arguments that are no JSON', async () => {
    const { ask, stage } = bind(
      await open(
        heard =>
          heard.results.length > 0
            ? say('I see.')
            : {
                answer: {
                  calls: [
                    { id: 'a', name: 'echo', input: '{"n": ' },
                    { id: 'b', name: 'nobodys', input: '{}' },
                    { id: 'c', name: 'echo', input: '[]' },
                    { id: 'd', name: 'echo', input: '' },
                  ],
                  finish: 'tool_calls',
                },
              },
        { tools: [echo] },
      ),
    )
    const reading = await ask('responses', ECHO)
    expect(stage.heard[1]?.results.map(({ text }) => text)).toEqual([
      'The arguments are not a JSON object.',
      'There is no such tool.',
      'The arguments are not a JSON object.',
      '{}',
    ])
    expect([reading.text, reading.calls]).toEqual(['I see.', []])
    expect(reading.uses.map(({ status }) => status)).toEqual([
      'incomplete',
      'incomplete',
      'completed',
    ])
    expect(reading.usage.server_tool_use_details).toMatchObject({
      tool_calls_requested: 4,
      tool_calls_executed: 1,
    })
  })

  test('separates calls that their provider gave one id, or none', async () => {
    const ids = ['x', 'x', '', '', 'x_1']
    const calls = ids.map((id, n) => ({ id, name: 'echo', input: `{"n":${n}}` }))
    const { ask, stage } = bind(
      await open(
        heard =>
          heard.results.length > 0 ? say('Done.') : { answer: { calls, finish: 'tool_calls' } },
        { tools: [echo] },
      ),
    )
    for (const stream of [false, true]) {
      const { uses } = await ask('responses', { ...ECHO, stream })
      expect(uses.map(({ status }) => status)).toEqual(ids.map(() => 'completed'))
      const heard = stage.heard.at(-1)
      const sent = heard?.calls.map(({ id }) => id) ?? []
      expect(new Set(sent).size).toBe(ids.length)
      expect(heard?.results.map(({ id }) => id)).toEqual(sent)
    }
  })

  test.each(
    DOORS.flatMap(door => ['openai-chat', 'gemini'].map(protocol => [door, protocol] as const)),
  )('separates the calls of its turns as well: %s, %s', async (door, protocol) => {
    let turns = 0
    const { ask, stage } = bind(
      await open(
        () =>
          ++turns % 4 === 0
            ? say('Done.')
            : { answer: { calls: [{ id: 'x', name: 'echo', input: '{}' }], finish: 'tool_calls' } },
        { tools: [echo] },
      ),
    )
    for (const stream of [false, true]) {
      const reading = await ask(door, { ...ECHO, model: `acme/${protocol}`, stream })
      expect([reading.text, reading.error]).toEqual(['Done.', null])
      const { calls = [], results = [] } = stage.heard.at(-1) ?? {}
      if (protocol === 'openai-chat') {
        expect(new Set(calls.map(({ id }) => id)).size).toBe(3)
        expect(results.map(({ id }) => id)).toEqual(calls.map(({ id }) => id))
      }
      if (door !== 'messages') continue
      const ids = JSON.stringify(reading.raw).match(/"id":"(srvtoolu|toolu|x|call)[^"]*"/g)
      expect(new Set(ids).size).toBe(3)
    }
  })

  test('may be asked for by a preset, whose tools the request’s own replace', async () => {
    const { ask, stage } = bind(
      await open(heard => (heard.results.length > 0 ? say('Done.') : call('echo')), {
        tools: [echo, datetime as ServerTool],
      }),
    )
    const { gateway } = stage
    await createPreset(gateway, getOperator(gateway), 'p', {
      system_prompt: null,
      config: { model: 'acme/openai-chat', ...ECHO },
    })
    for (const door of DOORS)
      expect(await ask(door, { model: '@preset/p' })).toMatchObject({ status: 200, text: 'Done.' })
    await ask('chat', { model: '@preset/p', tools: [{ type: 'openrouter:datetime' }] })
    expect(stage.heard.at(-1)?.tools).toEqual(['echo', 'datetime'])
    expect((await ask('chat', { model: '@preset/p', ...ECHO })).uses).toHaveLength(1)
  })

  test('does not run what an answer that was cut off asks for', async () => {
    const cut: Scenario = () => ({
      answer: { calls: [{ id: 'a', name: 'echo', input: '{}' }], finish: 'length' },
    })
    const { ask, stage } = bind(await open(cut, { tools: [echo] }))
    const reading = await ask('chat', ECHO)
    expect([reading.finish, reading.uses, stage.heard.length]).toEqual(['length', [], 1])
  })

  test('refuses more than 64 calls of one turn', async () => {
    const names = Array.from({ length: 70 }, () => 'echo')
    const { ask, stage } = bind(
      await open(heard => (heard.results.length > 0 ? say('Oh.') : call(...names)), {
        tools: [echo],
      }),
    )
    await ask('chat', ECHO)
    const texts = stage.heard[1]?.results.map(({ text }) => text) ?? []
    expect(texts.filter(text => text === 'At most 64 calls at once.')).toHaveLength(6)
  })

  test('lets a model that must call a tool do so once', async () => {
    const { ask, stage } = bind(
      await open(
        heard => (heard.choice === null || heard.choice === 'auto' ? say('Done.') : call('echo')),
        {
          tools: [echo],
        },
      ),
    )
    for (const tool_choice of ['required', { type: 'gateway:echo' }, { type: 'openrouter:echo' }]) {
      stage.heard.length = 0
      expect((await ask('chat', { ...ECHO, tool_choice })).text).toBe('Done.')
      expect(stage.heard).toHaveLength(2)
    }
    expect(stage.heard[0]?.choice).toBe('echo')
  })

  test('shows deferred functions when the model has found them', async () => {
    const { ask, stage } = bind(
      await open(
        heard =>
          heard.tools.includes('get_weather')
            ? call('get_weather')
            : {
                answer: {
                  calls: [{ id: 'a', name: 'tool_search', input: '{"query":"weather"}' }],
                  finish: 'tool_calls',
                },
              },
        { tools: [toolSearch as ServerTool] },
      ),
    )
    const deferred = ['get_weather', 'get_time'].map(name => ({
      type: 'function',
      name,
      parameters: { type: 'object' },
      defer_loading: true,
    }))
    const tools = [{ type: 'gateway:tool_search' }, ...deferred]
    const reading = await ask('responses', { tools })
    expect(stage.heard.map(heard => heard.tools)).toEqual([
      ['tool_search'],
      ['tool_search', 'get_weather'],
    ])
    expect(reading.calls).toMatchObject([{ name: 'get_weather' }])
  })

  test('ends where its client must decide, and shows the item as its tool has it', async () => {
    const asking = createTool('remote', () => ({
      text: 'wait',
      isError: false,
      pauses: true,
      item: { type: 'mcp_approval_request', name: 'delete' },
    }))
    const { ask, stage } = bind(
      await open(() => call('remote'), { tools: [{ ...asking, plainTypes: ['remote'] }] }),
    )
    const { raw, finish } = await ask('responses', { tools: [{ type: 'remote' }] })
    expect([raw[0]?.output, finish]).toMatchObject([
      [{ type: 'mcp_approval_request', name: 'delete' }],
      'completed',
    ])
    expect(stage.heard).toHaveLength(1)
  })

  test('leaves to a provider what that does itself', async () => {
    const native: ServerTool = {
      ...echo,
      name: 'native',
      shorthands: ['web_search'],
      delegate: (_, given) => ({ ...given, extra: { ...given.extra, searches: true } }),
    }
    const { ask, stage } = bind(
      await open(heard => (heard.results.length > 0 ? say('Done.') : call('echo')), {
        tools: [native, echo],
      }),
    )
    const only = await ask('chat', { tools: [{ type: 'web_search' }] })
    // Without a tool of the gateway a call of one is for the client.
    expect([only.calls.length, stage.heard[0]?.tools, only.uses]).toEqual([1, [], []])
    const both = await ask('chat', { tools: [{ type: 'web_search' }, ...ECHO.tools] })
    expect([both.text, stage.heard.at(-1)?.tools]).toEqual(['Done.', ['echo']])
  })

  test('cites what its tools found', async () => {
    const sources = [
      { url: 'https://a.example/page', title: 'A', text: 'About A' },
      { url: 'https://b.example', title: null },
    ]
    const find = createTool('find', () => ({ text: 'found', isError: false, sources }))
    const { ask } = bind(
      await open(
        heard =>
          heard.results.length > 0 ? say('See https://a.example/page for that.') : call('find'),
        { tools: [find] },
      ),
    )
    const { raw } = await ask('responses', { tools: [{ type: 'gateway:find' }] })
    const { output } = raw[0] as { output: { content?: { annotations: Json[] }[] }[] }
    expect(output.at(-1)?.content?.[0]?.annotations).toEqual([
      {
        type: 'url_citation',
        url: 'https://a.example/page',
        title: 'A',
        content: 'About A',
        start_index: 4,
        end_index: 26,
      },
      { type: 'url_citation', url: 'https://b.example', title: '', start_index: 0, end_index: 0 },
    ])
  })
})

/** Names the parts of a stage that most tests use. */
const bind = (stage: LoopStage) => ({ stage, ask: stage.ask.bind(stage) })

describe('an answer that a client sends back', () => {
  const scenario: Scenario = heard =>
    heard.lines.includes('user: Again')
      ? say('Again.')
      : heard.results.length > 0
        ? say('Done.')
        : call('echo', 'echo')
  const again = { role: 'user', content: 'Again' }
  const protocols = ['openai-chat', 'anthropic-messages', 'gemini', 'openai-responses'] as const

  test.each(protocols)('of chat tells the model what it called and got: %s', async protocol => {
    const { ask, stage } = bind(await open(scenario, { tools: [echo] }))
    const model = `acme/${protocol}`
    for (const stream of [false, true]) {
      const first = await ask('chat', { ...ECHO, model, stream })
      const message = { role: 'assistant', content: first.text, reasoning_details: first.uses }
      const messages = [{ role: 'user', content: 'Hi' }, message, again]
      expect((await ask('chat', { ...ECHO, model, messages })).text).toBe('Again.')
      const heard = stage.heard.at(-1)
      expect(heard?.calls.map(({ name, input }) => [name, JSON.parse(input)])).toEqual([
        ['echo', { n: 0 }],
        ['echo', { n: 1 }],
      ])
      expect(heard?.results.map(({ text }) => JSON.parse(text))).toEqual([{ n: 0 }, { n: 1 }])
      expect(heard?.lines).toEqual(['user: Hi', 'assistant: Done.', 'user: Again'])
      // Without tools there are no calls either.
      expect((await ask('chat', { model, messages })).text).toBe('Again.')
      expect([stage.heard.at(-1)?.calls, stage.heard.at(-1)?.results]).toEqual([[], []])
    }
  })

  test.each(protocols)('of messages and responses is taken back: %s', async protocol => {
    const { ask, stage } = bind(await open(scenario, { tools: [echo] }))
    const model = `acme/${protocol}`
    const { raw } = await ask('messages', { ...ECHO, model })
    const [{ content } = {}] = raw
    const messages = [{ role: 'user', content: 'Hi' }, { role: 'assistant', content }, again]
    expect((await ask('messages', { ...ECHO, model, messages })).text).toBe('Again.')
    expect(stage.heard.at(-1)?.lines).toEqual(['user: Hi', 'assistant: Done.', 'user: Again'])
    const answer = await ask('responses', { ...ECHO, model })
    const output = (answer.raw[0]?.output ?? []) as Json[]
    const input = [{ role: 'user', content: 'Hi' }, ...output, again]
    expect((await ask('responses', { ...ECHO, model, input })).text).toBe('Again.')
    expect(stage.heard.at(-1)?.lines).toEqual(['user: Hi', 'assistant: Done.', 'user: Again'])
  })
})

describe('A-19 a loop stops', () => {
  /** The turns of the model, and whether the last had no tools. */
  const turns = ({ heard }: LoopStage) => [heard.length, heard.at(-1)?.choice === 'none']
  const stopped = async (more: Json, scenario = forever('echo')) => {
    const { ask, stage } = bind(await open(scenario, { tools: [echo], limit: 10 }))
    const reading = await ask('chat', { ...ECHO, ...more })
    expect([reading.status, reading.error]).toEqual([200, null])
    return { reading, turns: turns(stage), stage }
  }

  test('after 30 turns with tools, and answers in one without', async () => {
    const { reading, turns, stage } = await stopped({})
    expect([reading.text, reading.finish, turns]).toEqual(['Enough.', 'stop', [31, true]])
    expect(stage.generations[0]?.total_cost).toBe(31n * TURN)
    await expectBooks(stage)
  })

  test.each([
    [{ max_tool_calls: 3 }, 4],
    [{ stop_server_tools_when: [{ type: 'step_count_is', step_count: 1 }] }, 2],
    [{ max_tool_calls: 2, stop_server_tools_when: [{ type: 'step_count_is', step_count: 5 }] }, 6],
    [{ max_tool_calls: 99, stop_server_tools_when: [{ type: 'step_count_is', step_count: 2 }] }, 3],
    [{ stop_server_tools_when: [{ type: 'has_tool_call', tool_name: 'echo' }] }, 2],
    [{ stop_server_tools_when: [{ type: 'has_tool_call', tool_name: 'gateway:echo' }] }, 2],
    [{ stop_server_tools_when: [{ type: 'has_tool_call', tool_name: 'openrouter:echo' }] }, 2],
    // Each turn has 15 tokens.
    [{ stop_server_tools_when: [{ type: 'max_tokens_used', max_tokens: 31 }] }, 4],
    [{ stop_server_tools_when: [{ type: 'max_tokens_used', max_tokens: 30 }] }, 3],
    // Each turn costs 20 millionths of a dollar.
    [{ stop_server_tools_when: [{ type: 'max_cost', max_cost_in_dollars: 0.00006 }] }, 4],
    [{ stop_server_tools_when: [{ type: 'max_cost', max_cost_in_dollars: 0.000061 }] }, 5],
    [{ stop_server_tools_when: [{ type: 'finish_reason_is', reason: 'tool_calls' }] }, 2],
    [
      {
        stop_server_tools_when: [
          { type: 'finish_reason_is', reason: 'length' },
          { type: 'max_cost', max_cost_in_dollars: 1 },
          { type: 'step_count_is', step_count: 2 },
        ],
      },
      3,
    ],
  ])('as %j says', async (more, count) => {
    const { reading, turns } = await stopped(more)
    expect([reading.text, turns]).toEqual(['Enough.', [count, true]])
  })

  const ENDS: [Json, number][] = [
    [{}, 31],
    [{ max_tool_calls: 2 }, 3],
    [{ stop_server_tools_when: [{ type: 'step_count_is', step_count: 3 }] }, 4],
  ]

  test.each(DOORS.flatMap(door => ENDS.map(([more, count]) => [door, more, count] as const)))(
    'by what the call says, whoever brings the tool: %s %j',
    async (door, more, count) => {
      const { ask, stage } = bind(await open(forever('echo'), { tools: [echo], limit: 10 }))
      await createPreset(stage.gateway, getOperator(stage.gateway), 'brings', {
        system_prompt: null,
        config: { model: 'acme/openai-chat', ...ECHO },
      })
      const choice = door === 'messages' ? {} : { tool_choice: { type: 'gateway:echo' } }
      const reading = await ask(door, { model: '@preset/brings', ...choice, ...more })
      expect([reading.error, reading.text]).toEqual([null, 'Enough.'])
      expect(stage.heard).toHaveLength(count)
    },
  )

  test.each([
    ['a plugin of the call', { plugins: [{ id: 'web-fetch' }] }, {}],
    ['a plugin of the config', {}, { plugins: { defaults: [{ id: 'web-fetch' }] } }],
  ])('by what the call says, where %s brings the tool', async (_, body, config) => {
    const { ask, stage } = bind(await open(forever('web_fetch'), { config, limit: 10 }))
    const reading = await ask('chat', { ...body, max_tool_calls: 2 })
    expect([reading.error, reading.text, stage.heard.length]).toEqual([null, 'Enough.', 3])
  })

  test('after 98 turns whatever its conditions, and has then answered', async () => {
    const stop_server_tools_when = [{ type: 'max_cost', max_cost_in_dollars: 1000 }]
    const { reading, turns } = await stopped({ stop_server_tools_when })
    expect([reading.text, turns]).toEqual(['Enough.', [99, true]])
  })

  test('after 30 turns where no condition bounds turns, tokens or cost', async () => {
    const stop_server_tools_when = [{ type: 'finish_reason_is', reason: 'length' }]
    const { reading, turns } = await stopped({ stop_server_tools_when })
    expect([reading.text, turns]).toEqual(['Enough.', [31, true]])
  })

  test('also where the model goes on to call tools that are off', async () => {
    const { reading, turns } = await stopped({ max_tool_calls: 1 }, () => call('echo'))
    expect([reading.finish, reading.calls, reading.uses.length]).toEqual(['stop', [], 1])
    expect(turns).toEqual([2, true])
  })
})

describe('a body with', () => {
  const broken = {
    ...createTool('broken', () => ({ text: '', isError: false })),
    findObstacle: () => 'it has no key',
  }
  let refusing: LoopStage
  beforeAll(async () => {
    refusing = await openLoopStage(() => say('Hi'), { tools: [echo, broken] })
  })
  afterAll(() => refusing.close())

  const stops = (...conditions: unknown[]) => ({
    ...ECHO,
    stop_server_tools_when: conditions,
  })
  test.each([
    ['an unknown tool', { tools: [{ type: 'gateway:magic' }] }, 'tools.0.type'],
    ['a tool that does not work here', { tools: [{ type: 'gateway:broken' }] }, 'tools.0.type'],
    ['an unknown parameter', { tools: [{ type: 'gateway:echo', depth: 1 }] }, 'tools.0.depth'],
    [
      'wrong parameters',
      { tools: [{ type: 'gateway:echo', parameters: { timezone: 7 } }] },
      'tools.0.parameters.timezone',
    ],
    ['a tool twice', { tools: [...ECHO.tools, ...ECHO.tools] }, 'tools.1.type'],
    [
      'a choice of another tool',
      { ...ECHO, tool_choice: { type: 'gateway:datetime' } },
      'tool_choice.type',
    ],
    ['several answers', { ...ECHO, n: 2 }, 'n'],
    ['too many steps', { ...ECHO, max_tool_calls: 31 }, 'max_tool_calls'],
    ['no steps', { ...ECHO, max_tool_calls: 0 }, 'max_tool_calls'],
    ['half a step', { ...ECHO, max_tool_calls: 1.5 }, 'max_tool_calls'],
    ['no conditions', stops(), 'stop_server_tools_when'],
    [
      'conditions that are no list',
      { ...ECHO, stop_server_tools_when: {} },
      'stop_server_tools_when',
    ],
    ['a condition without a type', stops({}), 'stop_server_tools_when.0.type'],
    ['an unknown condition', stops({ type: 'toString' }), 'stop_server_tools_when.0.type'],
    [
      'a condition with more than it has',
      stops({ type: 'step_count_is', step_count: 1, max_cost: 1 }),
      'stop_server_tools_when.0.max_cost',
    ],
    ...[0, -1, 1.5, '3', null, 1e300].flatMap(count => [
      [
        `a step count of ${count}`,
        stops({ type: 'step_count_is', step_count: count }),
        'stop_server_tools_when.0.step_count',
      ],
      [
        `${count} tokens`,
        stops({ type: 'max_tokens_used', max_tokens: count }),
        'stop_server_tools_when.0.max_tokens',
      ],
    ]),
    ...[0, -1, '1', null, 1e300].map(cost => [
      `a cost of ${cost}`,
      stops({ type: 'max_cost', max_cost_in_dollars: cost }),
      'stop_server_tools_when.0.max_cost_in_dollars',
    ]),
    [
      'an unknown reason',
      stops({ type: 'step_count_is', step_count: 1 }, { type: 'finish_reason_is', reason: 'done' }),
      'stop_server_tools_when.1.reason',
    ],
    [
      'a tool that is not in it',
      stops({ type: 'has_tool_call', tool_name: 'datetime' }),
      'stop_server_tools_when.0.tool_name',
    ],
    [
      'a choice of a tool that it has not',
      { tool_choice: { type: 'gateway:echo' } },
      'tool_choice.type',
    ],
    [
      'a choice of no type that there is',
      { tool_choice: { type: 'functoin' } },
      'tool_choice.type',
    ],
    [
      'a condition that is none, without tools',
      { stop_server_tools_when: [{ type: 'step_count_is', step_count: 0 }] },
      'stop_server_tools_when.0.step_count',
    ],
    ['no steps, without tools', { max_tool_calls: 0 }, 'max_tool_calls'],
  ] as [string, Json, string][])('%s is a 400 on every door', async (_, body, field) => {
    const { ask, stage } = bind(refusing)
    for (const door of DOORS) {
      if (door === 'responses' && field === 'n') continue
      const { status, error } = await ask(door, body)
      const found = (error?.metadata as Json | undefined)?.field ?? field
      expect([door, status, found]).toEqual([door, 400, field])
    }
    expect(stage.heard).toEqual([])
  })

  test.each(['chat', 'responses'] as const)(
    'a choice among tools of which the call at %s has none is a 400, and one of some is not',
    async door => {
      const { ask, stage } = bind(await open(() => say('Hi'), {}))
      const name = (named: string) =>
        door === 'chat'
          ? { type: 'function', function: { name: named } }
          : { type: 'function', name: named }
      const choose = (...names: string[]) => {
        const among = { mode: 'auto', tools: names.map(name) }
        const tool_choice =
          door === 'chat'
            ? { type: 'allowed_tools', allowed_tools: among }
            : { type: 'allowed_tools', ...among }
        return ask(door, { tools: [name('look'), name('walk')], tool_choice })
      }
      const { status, error } = await choose('lok')
      expect([status, error?.metadata]).toEqual([
        400,
        expect.objectContaining({ field: 'tool_choice' }),
      ])
      expect(error?.message).toContain('found lok')
      expect(stage.heard).toEqual([])
      expect((await choose('look', 'away')).status).toBe(200)
    },
  )

  test('a tool that the workspace has disabled is a 403', async () => {
    const { ask, stage } = bind(await open(() => say('Hi'), { tools: [echo] }))
    const { gateway } = stage
    const [workspace] = gateway.memory.workspaces.values()
    await updateWorkspace(gateway, getOperator(gateway), workspace?.id ?? '', {
      disabled_server_tools: ['openrouter:echo'],
    } as never)
    for (const door of DOORS) expect((await ask(door, ECHO)).status).toBe(403)
  })
})

describe('a tool that the config disables for a workspace', () => {
  const config = { server_tools: { disabled_tools: { default: ['files', 'mcp'] } } }
  test.each<[string, Json]>([
    ['itself', { type: 'gateway:files' }],
    ['by its other prefix', { type: 'openrouter:files' }],
    ['without one', { type: 'mcp', server_label: 'own' }],
    [
      'within another',
      { type: 'gateway:subagent', parameters: { tools: [{ type: 'gateway:files' }] } },
    ],
  ])('is a 403, named %s; others are not', async (_, tool) => {
    const { ask, stage } = bind(await open(() => say('Hi'), { config }))
    for (const door of DOORS) {
      const { status, error } = await ask(door, { tools: [tool] })
      expect([status, error?.message]).toEqual([403, expect.stringContaining('has disabled')])
      expect((await ask(door, { tools: [{ type: 'gateway:datetime' }] })).status).toBe(200)
    }
    expect(stage.heard).toHaveLength(DOORS.length)
  })

  test('is allowed in all others', async () => {
    const others = { server_tools: { disabled_tools: { research: ['files'], toString: ['mcp'] } } }
    const { ask } = bind(await open(() => say('Hi'), { config: others }))
    expect((await ask('chat', { tools: [{ type: 'gateway:files' }] })).status).toBe(200)
  })
})

describe('a tool that', () => {
  const once: Scenario = heard => (heard.results.length > 0 ? say('I see.') : call('tool'))
  const use = async (run: Run, config: Json = {}) => {
    const { ask, stage } = bind(await open(once, { tools: [createTool('tool', run)], config }))
    const reading = await ask('responses', { tools: [{ type: 'gateway:tool' }] })
    return { reading, result: stage.heard[1]?.results[0]?.text, stage }
  }

  test('never ends is ended, which the model is told', async () => {
    let reason: unknown
    const { reading, result, stage } = await use(
      ({ cancellation }) =>
        new Promise((_, reject) => {
          cancellation.listen(given => {
            reason = given.type
            reject(given)
          })
        }),
      { server_tools: { timeout_seconds: 0.01 } },
    )
    expect([reading.text, result, reason]).toEqual([
      'I see.',
      'The tool took longer than 0.01 s.',
      'timeout',
    ])
    expect(stage.generations[0]?.steps[1]).toMatchObject({ is_error: true, error_type: 'timeout' })
  })

  test('never ends and does not listen is ended too', async () => {
    const { reading } = await use(() => new Promise(() => undefined), {
      server_tools: { timeout_seconds: 0.01 },
    })
    expect(reading.text).toBe('I see.')
  })

  test('fails in its own way has failed, for the model', async () => {
    const { reading, result } = await use(() => {
      throw new TypeError('secret detail')
    })
    expect([reading.text, result]).toEqual(['I see.', 'The tool failed.'])
  })

  test('returns 100 MB returns as much as the config allows', async () => {
    const { result } = await use(() => ({ text: 'x'.repeat(100_000_000), isError: false }), {
      server_tools: { max_result_characters: 1_000 },
    })
    expect(result).toBe(`${'x'.repeat(1_000)}\n[The rest was cut off.]`)
  })
})

describe('money', () => {
  const PRICE = 5_000n
  const priced = createTool('echo', () => ({ text: 'ok', isError: false, cost: PRICE }), PRICE)

  test.each(MODES)('for tools is charged and shown: %s, streamed %p', async (door, stream) => {
    const { ask, stage } = bind(
      await open(heard => (heard.results.length > 0 ? say('Done.') : call('echo', 'echo')), {
        tools: [priced],
        limit: 1,
      }),
    )
    const { usage } = await ask(door, { ...ECHO, stream })
    const cost = 2n * TURN + 2n * PRICE
    expect(usage.cost).toBe(Number(cost) / 1e9)
    if (door !== 'responses')
      expect(usage.cost_details).toMatchObject({ server_tool_cost: 0.00001 })
    expect(stage.money).toEqual({ held: 0n, spent: cost })
    expect(stage.generations).toMatchObject([{ total_cost: cost }])
    expect(stage.generations[0]?.steps.map(step => step.cost)).toEqual([TURN, PRICE, PRICE, TURN])
    const { id = '' } = stage.generations[0] ?? {}
    const charges = await stage.gateway.store.ledger.listCharges(id)
    expect(charges.map(({ step, nanos }) => [step, nanos])).toEqual([
      [1, TURN],
      [2, 2n * PRICE],
      [3, TURN],
    ])
    await expectBooks(stage)
  })

  test('that is not there for a tool is told to the model, and the tool does not run', async () => {
    let runs = 0
    const dear = createTool(
      'echo',
      () => {
        runs += 1
        return { text: 'ok', isError: false, cost: 10_000_000_000n }
      },
      10_000_000_000n,
    )
    const scenario: Scenario = ({ results }) =>
      results.length > 0 ? say('So be it.') : call('echo')
    const { ask, stage } = bind(await open(scenario, { tools: [dear], limit: 1 }))
    const { text, usage } = await ask('chat', ECHO)
    expect([text, runs]).toEqual(['So be it.', 0])
    expect(stage.heard.at(-1)?.results[0]?.text).toContain('Nothing is left for this')
    expect(usage.server_tool_use_details).toMatchObject({ ended_by: 'payment_required' })
    expect(stage.money).toEqual({ held: 0n, spent: 2n * TURN })
    await expectBooks(stage)
  })

  test('that is not there for a turn ends the loop', async () => {
    const { ask, stage } = bind(await open(forever('echo'), { tools: [echo], limit: 0.0005 }))
    const { error } = await ask('chat', { ...ECHO, max_tokens: 16 })
    expect(error?.code).toBe(402)
    expect(stage.money.spent).toBeLessThanOrEqual(500_000n)
    expect(stage.money.spent).toBe(BigInt(stage.heard.length) * TURN)
    await expectBooks(stage)
  })
})

describe('while a tool runs', () => {
  const waiting = () => {
    const begun = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<string>()
    const tool = createTool(
      'echo',
      ({ cancellation }) =>
        new Promise((_, reject) => {
          cancellation.listen(reason => {
            ended.resolve(reason.type)
            reject(reason)
          })
          begun.resolve()
        }),
      5_000n,
    )
    return { tool, begun: begun.promise, ended: ended.promise }
  }

  test.each([false, true])(
    'its client leaves: it is cancelled and charged; streamed %p',
    async stream => {
      const { tool, begun, ended } = waiting()
      const { stage } = bind(await open(forever('echo'), { tools: [tool], limit: 1 }))
      const client = new AbortController()
      const finished = new Promise(resolve => stage.gateway.events.on('call.closed', resolve))
      const response = stage.send('chat', { ...ECHO, stream }, { signal: client.signal })
      const reading = Promise.resolve(response).then(async answer => {
        const reader = answer.body?.getReader()
        client.signal.addEventListener('abort', () => void reader?.cancel().catch(() => undefined))
        while (!(await reader?.read())?.done);
      })
      await begun
      client.abort()
      expect(await ended).toBe('cancelled')
      await Promise.allSettled([reading, finished])
      expect(stage.generations).toMatchObject([{ cancelled: true, total_cost: TURN + 5_000n }])
      expect(stage.heard).toHaveLength(1)
      await expectBooks(stage)
    },
  )

  test('the gateway stops: the loop ends at once', async () => {
    const { tool, begun, ended } = waiting()
    const { ask, stage } = bind(await open(forever('echo'), { tools: [tool], limit: 1 }))
    const reading = ask('chat', ECHO)
    await begun
    await stage.gateway.traffic.calls.drain(600_000)
    expect(await ended).toBe('unavailable')
    expect((await reading).status).toBe(503)
    expect(stage.heard).toHaveLength(1)
    await expectBooks(stage)
  })

  test('X-05 its key is disabled: the loop ends at once', async () => {
    const { tool, begun, ended } = waiting()
    const { ask, stage } = bind(await open(forever('echo'), { tools: [tool], limit: 1 }))
    const reading = ask('chat', ECHO)
    await begun
    await updateKey(stage.gateway, getOperator(stage.gateway), stage.key.hash, { disabled: true })
    expect(await ended).toBe('authentication')
    expect((await reading).error).toMatchObject({ code: 401 })
    expect([stage.heard.length, stage.money.spent]).toEqual([1, TURN + 5_000n])
    await expectBooks(stage)
  })

  test('another key is disabled: it goes on', async () => {
    const { tool, begun, ended } = waiting()
    const { ask, stage } = bind(await open(forever('echo'), { tools: [tool], limit: 1 }))
    const { gateway } = stage
    const other = await createKey(gateway, getOperator(gateway), { name: 'other' })
    const reading = ask('chat', ECHO)
    await begun
    await updateKey(gateway, getOperator(gateway), other.data.hash, { disabled: true })
    await gateway.traffic.calls.drain(600_000)
    expect([await ended, (await reading).status]).toEqual(['unavailable', 503])
  })
})

describe('rules', () => {
  const guard = async (stage: LoopStage, builtin: object) => {
    const { gateway, key } = stage
    const made = await createGuardrail(gateway, getOperator(gateway), {
      name: 'g',
      content_filter_builtins: [builtin],
    } as never)
    await assignKeys(gateway, getOperator(gateway), made.data.id, { key_hashes: [key.hash] })
  }
  const leaky = createTool('echo', () => ({ text: 'Write to eve@example.com', isError: false }))
  const once = (heard: ReceivedRequest) => (heard.results.length > 0 ? say('Done.') : call('echo'))

  test('redact what tools return before a model sees it', async () => {
    const { ask, stage } = bind(await open(once, { tools: [leaky] }))
    await guard(stage, { slug: 'email', action: 'redact' })
    expect((await ask('chat', ECHO)).text).toBe('Done.')
    expect(stage.heard[1]?.results[0]?.text).toBe('Write to [EMAIL]')
  })

  test('block what tools return, before another turn', async () => {
    const { ask, stage } = bind(await open(once, { tools: [leaky] }))
    await guard(stage, { slug: 'email', action: 'block' })
    expect((await ask('chat', ECHO)).error).toMatchObject({ code: 403 })
    expect(stage.heard).toHaveLength(1)
    await expectBooks(stage)
  })
})

test('the metadata names the tools and their uses', async () => {
  let runs = 0
  const counted = createTool('echo', () => {
    runs += 1
    return { text: 'ok', isError: false }
  })
  const { ask, stage } = bind(
    await open(heard => (heard.results.length > 0 ? say('Done.') : call('echo')), {
      tools: [counted],
    }),
  )
  const { raw } = await ask('chat', ECHO, { 'x-gateway-metadata': 'enabled' })
  const { pipeline } = (raw[0]?.gateway_metadata ?? {}) as { pipeline: Json[] }
  expect(pipeline).toEqual([
    {
      type: 'server_tools',
      name: 'gateway:echo',
      summary: 'uses=1, failed=0',
      data: { functions: ['echo'], uses: 1, failed: 0 },
    },
  ])
  expect([runs, stage.generations.length]).toEqual([1, 1])
})

test('a dry run names the tools, and neither runs nor sends anything', async () => {
  let runs = 0
  const counted = createTool('echo', () => {
    runs += 1
    return { text: 'ok', isError: false }
  })
  const { stage } = bind(await open(() => call('echo'), { tools: [counted] }))
  const { gateway } = stage
  const { key } = await createKey(gateway, getOperator(gateway), { name: 'm' }, 'management')
  const headers = { authorization: `Bearer ${key}` }
  const response = await stage.send('chat', { ...ECHO, debug: { dry_run: true } }, { headers })
  const { stages, error } = (await response.json()) as { stages: Json[]; error: Json | null }
  expect([response.status, error, stages]).toMatchObject([
    200,
    null,
    [{ type: 'server_tools', name: 'gateway:echo', data: { functions: ['echo'], uses: 0 } }],
  ])
  expect([runs, stage.heard.length]).toEqual([0, 0])
})
