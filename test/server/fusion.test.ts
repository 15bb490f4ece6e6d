import { afterEach, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import type { ReceivedRequest, ScriptedAnswer } from '../support/fake-providers/fake-provider.ts'
import { expectBooks } from '../support/invariants.ts'
import { DOORS, type LoopStage, openLoopStage, TURN } from '../support/tool-loop.ts'

let stage: LoopStage | undefined
afterEach(async () => {
  await stage?.close()
  stage = undefined
})

const open = async (...given: Parameters<typeof openLoopStage>): Promise<LoopStage> => {
  stage = await openLoopStage(...given)
  return stage
}

const say = (text: string): { answer: ScriptedAnswer } => ({ answer: { text, finish: 'stop' } })
const ANALYSIS = {
  consensus: ['Both like apples'],
  contradictions: [{ topic: 'Sort', stances: [{ model: 'acme/gemini', stance: 'Boskoop' }] }],
  partial_coverage: [{ models: ['acme/gemini'], point: 'Storage' }],
  unique_insights: [{ model: 'acme/cohere-chat', insight: 'Pie' }],
  blind_spots: ['Price'],
}
const PANEL = ['acme/gemini', 'acme/cohere-chat']
const QUESTION = 'Which apple?'

/** What the panel and the judge say; the outer model asks the panel once and then ends. */
interface Cast {
  panel?: Scenario
  judge?: Scenario
}

const isInner = ({ lines }: ReceivedRequest) =>
  lines.some(line => line.startsWith(`user: ${QUESTION}`))
const isJudge = (request: ReceivedRequest) =>
  isInner(request) && request.system.includes('You compare what several models answered')

const playing =
  ({ panel = () => say('Boskoop.'), judge = () => say(JSON.stringify(ANALYSIS)) }: Cast = {}) =>
  (request: ReceivedRequest) => {
    if (isJudge(request)) return judge(request)
    if (isInner(request)) return panel(request)
    if (request.results.length > 0) return say('Done.')
    const input = JSON.stringify({ prompt: QUESTION })
    return {
      answer: { calls: [{ id: 'call_1', name: 'fusion', input }], finish: 'tool_calls' },
    } as ReturnType<Scenario>
  }

const FUSION = (parameters: Json = {}) => ({
  tools: [{ type: 'openrouter:fusion', parameters: { analysis_models: PANEL, ...parameters } }],
})
const CONFIG = { server_tools: { fusion: { analysis_models: PANEL } } }

/** Returns the request in which the outer model got the result of its use, and that result. */
function readResult({ heard }: LoopStage): Json {
  const { text } = heard.find(({ results }) => results.length > 0)?.results[0] ?? {}
  return JSON.parse(text ?? '{}')
}

describe('a panel', () => {
  test.each(DOORS)('answers, is judged, and is charged turn by turn: %s', async door => {
    const at = await open(playing(), { limit: 1 })
    for (const stream of [false, true]) {
      at.heard.length = 0
      const { status, text } = await at.ask(door, { stream, ...FUSION() })
      expect([status, text]).toEqual([200, 'Done.'])
      expect(readResult(at)).toEqual({
        status: 'ok',
        analysis: ANALYSIS,
        responses: PANEL.map(model => ({ model, content: 'Boskoop.' })),
      })
      expect(at.heard.filter(isJudge)).toHaveLength(1)
    }
    expect(at.generations.map(({ total_cost }) => total_cost)).toEqual([5n * TURN, 5n * TURN])
    expect(at.generations[0]?.steps).toMatchObject([
      { type: 'model', name: 'acme/openai-chat' },
      { type: 'tool', name: 'openrouter:fusion', function: 'fusion', is_error: false },
      { type: 'model', depth: 1 },
      { type: 'model', depth: 1 },
      { type: 'model', name: 'acme/openai-chat', depth: 1 },
      { type: 'model', name: 'acme/openai-chat' },
    ])
    await expectBooks(at)
  })

  test('goes on without the models that fail, and says which', async () => {
    const failing = ['acme/gemini', 'acme/cohere-chat', 'acme/anthropic-messages']
    let asked = 0
    const at = await open(
      playing({ panel: () => (asked++ === 0 ? 'is overloaded' : say('Boskoop.')) }),
    )
    const { uses } = await at.ask('responses', FUSION({ analysis_models: failing }))
    const [item] = uses as [Json]
    expect(item).toMatchObject({ status: 'completed', analysis: ANALYSIS })
    const models = [
      ...(item.responses as { model: string }[]),
      ...(item.failed_models as { model: string; error: string; status_code: number }[]),
    ].map(({ model }) => model)
    expect(models.toSorted()).toEqual(failing.toSorted())
    expect(item.failed_models).toEqual([
      { model: expect.any(String), error: expect.any(String), status_code: expect.any(Number) },
    ])
    await expectBooks(at)
  })

  test('is an error to the model if all of it fails, and the call goes on', async () => {
    const at = await open(playing({ panel: () => 'is overloaded' }))
    const { text, uses } = await at.ask('responses', FUSION())
    expect(text).toBe('Done.')
    expect(uses).toMatchObject([
      {
        status: 'incomplete',
        failure_reason: 'all_models_failed',
        error: 'No model of the panel gave an answer.',
        failed_models: PANEL.map(model => ({ model })),
      },
    ])
    expect(at.heard.filter(isJudge)).toEqual([])
    await expectBooks(at)
  })

  test.each([
    ['fails', (): ReturnType<Scenario> => 'is overloaded'],
    ['says no JSON', () => say('I like apples.')],
    ['says other JSON', () => say('{"answer": 42}')],
  ])('has answers without analysis if its judge %s', async (_, judge) => {
    const at = await open(playing({ judge }))
    await at.ask('chat', FUSION())
    expect(readResult(at)).toEqual({
      status: 'ok',
      responses: PANEL.map(model => ({ model, content: 'Boskoop.' })),
    })
  })

  test('is read past prose and fences, and what has another form is left out', async () => {
    const found = { ...ANALYSIS, consensus: ['Both like apples', 7, null], blind_spots: 'none' }
    const judge = () => say(`Here:\n\`\`\`json\n${JSON.stringify(found)}\n\`\`\``)
    const at = await open(playing({ judge }))
    await at.ask('chat', FUSION())
    expect(readResult(at).analysis).toEqual({ ...ANALYSIS, blind_spots: [] })
  })

  test('gets the question alone, and its judge the answers marked as data', async () => {
    const at = await open(playing())
    await at.ask('chat', { ...FUSION({ temperature: 0.7, tools: [] }), text: 'Secret' })
    const inner = at.heard.filter(isInner)
    expect(inner).toHaveLength(3)
    expect(JSON.stringify(inner)).not.toContain('Secret')
    const judge = inner.find(isJudge)?.lines.join('\n')
    for (const model of PANEL) expect(judge).toContain(`<untrusted_content source="${model}">`)
  })

  test('may read the web unless its tools are named, or the workspace disabled that', async () => {
    const at = await open(playing())
    await at.ask('chat', FUSION())
    expect(at.heard.filter(isInner).map(({ tools }) => tools)).toEqual(Array(3).fill(['web_fetch']))
    at.heard.length = 0
    const tools = [{ type: 'gateway:datetime', parameters: { timezone: 'UTC' } }]
    await at.ask('chat', FUSION({ tools }))
    expect(at.heard.find(isInner)?.tools).toEqual(['datetime'])
    at.heard.length = 0
    const disabled_server_tools = ['openrouter:web_fetch' as const]
    const operator = getOperator(at.gateway)
    await updateWorkspace(at.gateway, operator, 'default', { disabled_server_tools })
    await at.ask('chat', FUSION())
    expect(at.heard.find(isInner)?.tools).toEqual([])
  })

  test('ends the call when a limit has not enough left, and charges what was used', async () => {
    const at = await open(playing(), { limit: 0.00032 })
    const { error } = await at.ask('chat', FUSION({ max_completion_tokens: 10 }))
    expect(error).toMatchObject({ code: 402 })
    await expectBooks(at)
  })

  test('cannot ask a panel itself, at any depth', async () => {
    const at = await open(playing())
    const tools = [{ type: 'gateway:fusion' }]
    expect(await at.ask('chat', FUSION({ tools }))).toMatchObject({
      status: 400,
      error: { metadata: { field: 'tools.0.parameters.tools.0' } },
    })
    const subagent = {
      type: 'gateway:subagent',
      parameters: { tools: [{ type: 'gateway:fusion', parameters: { analysis_models: PANEL } }] },
    }
    const task = JSON.stringify({ task_name: 't', task_description: 'Task' })
    await at.close()
    const nested = await open(request => {
      const isTask = request.lines.some(line => line.startsWith('user: Task'))
      if (isTask || isInner(request)) {
        if (request.results.length > 0) return say(request.results[0]?.text ?? '')
        const [tool] = request.tools
        const input = tool === 'fusion' ? JSON.stringify({ prompt: QUESTION }) : task
        if (!tool) return say('Boskoop.')
        return { answer: { calls: [{ id: 'c', name: tool, input }], finish: 'tool_calls' } }
      }
      return playing()(request)
    })
    await nested.ask('chat', FUSION({ tools: [subagent] }))
    expect(JSON.stringify(readResult(nested))).toContain('cannot ask a panel itself')
  })

  test.each([
    ['no models anywhere', {}, 'tools.0.type'],
    ['nine models', { analysis_models: Array(9).fill('acme/gemini') }, 'analysis_models'],
    ['none', { analysis_models: [] }, 'analysis_models'],
    ['a model twice', { analysis_models: [PANEL[0], PANEL[0]] }, 'analysis_models.1'],
    ['an unknown model', { analysis_models: ['acme/none'] }, 'analysis_models.0'],
    ['fusion itself', { analysis_models: ['gateway/fusion'] }, 'analysis_models.0'],
    ['an unknown judge', { analysis_models: PANEL, model: 'acme/none' }, 'model'],
    ['no turns', { analysis_models: PANEL, max_tool_calls: 0 }, 'max_tool_calls'],
    ['too many turns', { analysis_models: PANEL, max_tool_calls: 17 }, 'max_tool_calls'],
    ['a client’s tool', { analysis_models: PANEL, tools: [{ type: 'function' }] }, 'tools.0'],
    ['an unknown tool', { analysis_models: PANEL, tools: [{ type: 'gateway:x' }] }, 'tools.0.type'],
  ])('of %s is a 400 that names the field', async (_, parameters, field) => {
    const at = await open(playing())
    const tools = [{ type: 'gateway:fusion', parameters }]
    const { status, error } = await at.ask('chat', { tools })
    const path = field === 'tools.0.type' && !('tools' in parameters) ? '' : 'tools.0.parameters.'
    expect([status, error?.metadata]).toMatchObject([400, { field: path + field }])
    expect(at.heard).toEqual([])
  })
})

describe('a guardrail that excludes a model', () => {
  const openWithout = async (model: string): Promise<LoopStage> => {
    const at = await open(playing())
    const operator = getOperator(at.gateway)
    const rules = { name: 'g', ignored_models: [model] }
    const { data } = await createGuardrail(at.gateway, operator, rules as never)
    await assignKeys(at.gateway, operator, data.id, { key_hashes: [at.key.hash] })
    return at
  }
  const EXCLUDED = 'acme/cohere-chat'
  const NAMED = { model: EXCLUDED }

  test.each<[who: string, type: string, parameters: Json]>([
    ['the judge of a panel', 'fusion', { analysis_models: ['acme/gemini'], ...NAMED }],
    ['an advisor', 'advisor', NAMED],
    ['a subagent', 'subagent', NAMED],
  ])('refuses %s by that model, and asks nobody', async (_, type, parameters) => {
    const at = await openWithout(EXCLUDED)
    const tools = [{ type: `openrouter:${type}`, parameters }]
    expect((await at.ask('chat', { tools })).status).toBe(404)
    expect(at.heard).toEqual([])
    expect(at.generations).toEqual([])
    await expectBooks(at)
  })

  test('leaves it out of a panel, and says so', async () => {
    const at = await openWithout(EXCLUDED)
    expect((await at.ask('chat', FUSION())).status).toBe(200)
    const { responses, failed_models } = readResult(at)
    expect(responses).toMatchObject([{ model: 'acme/gemini' }])
    expect(failed_models).toMatchObject([{ model: EXCLUDED }])
    await expectBooks(at)
  })
})

describe('the plugin and the router', () => {
  const metadata = { 'x-gateway-metadata': 'enabled' }
  const find = (raw: Json[]) =>
    raw.findLast(one => one.gateway_metadata)?.gateway_metadata as Json | undefined

  test.each(DOORS)('offer the panel of the config: %s', async door => {
    const at = await open(playing(), { config: CONFIG })
    const offered = await at.ask(door, { plugins: [{ id: 'fusion' }] })
    expect([offered.status, offered.text]).toEqual([200, 'Done.'])
    expect(at.heard.filter(isInner)).toHaveLength(3)
    at.heard.length = 0
    const routed = await at.ask(door, { model: 'gateway/fusion' }, metadata)
    expect([routed.status, routed.text]).toEqual([200, 'Done.'])
    expect(at.heard.filter(isInner)).toHaveLength(3)
    expect(find(routed.raw)).toMatchObject({
      strategy: 'fusion',
      requested: 'gateway/fusion',
      pipeline: expect.arrayContaining([expect.objectContaining({ name: 'fusion' })]),
    })
    await expectBooks(at)
  })

  test('the entry overrides its preset, and that the config; the judge answers the call', async () => {
    const preset = { analysis_models: ['acme/openai-chat'], model: 'acme/gemini' }
    const fusion = { analysis_models: PANEL, presets: { 'general-fast': preset } }
    const at = await open(playing(), { config: { server_tools: { fusion } } })
    const ask = async (more: Json) => {
      at.heard.length = 0
      const plugins = [{ id: 'fusion', preset: 'general-fast', ...more }]
      const { raw } = await at.ask('chat', { model: 'gateway/fusion', plugins })
      return [raw[0]?.model, at.heard.filter(isInner).length]
    }
    expect(await ask({})).toEqual(['acme/gemini', 2])
    expect(await ask({ model: 'acme/cohere-chat' })).toEqual(['acme/cohere-chat', 2])
    expect(await ask({ analysis_models: PANEL })).toEqual(['acme/gemini', 3])
  })

  test.each([
    ['no panel anywhere', { plugins: [{ id: 'fusion' }] }, 'plugins'],
    [
      'a tool that no panel can have',
      { plugins: [{ id: 'fusion', analysis_models: PANEL, tools: [{ type: 'gateway:fusion' }] }] },
      'plugins.0.tools.0',
    ],
    [
      'a tool of the client',
      { plugins: [{ id: 'fusion', analysis_models: PANEL, tools: [{ type: 'function' }] }] },
      'plugins.0.tools.0.type',
    ],
    [
      'an unknown model',
      { plugins: [{ id: 'fusion', analysis_models: ['acme/none'] }] },
      'plugins.0.analysis_models.0',
    ],
  ])('with %s are a 400 that names the field', async (_, body, field) => {
    const at = await open(playing())
    const { status, error } = await at.ask('chat', body)
    expect([status, error?.metadata]).toMatchObject([400, { field }])
  })

  test('are a 403 in a workspace that has disabled the tool', async () => {
    const at = await open(playing(), { config: CONFIG })
    const disabled_server_tools = ['openrouter:fusion' as const]
    const operator = getOperator(at.gateway)
    await updateWorkspace(at.gateway, operator, 'default', { disabled_server_tools })
    expect((await at.ask('chat', { plugins: [{ id: 'fusion' }] })).status).toBe(403)
    expect((await at.ask('chat', { model: 'gateway/fusion' })).status).toBe(403)
  })

  test('the router without its plugin is refused', async () => {
    const at = await open(playing(), { config: CONFIG })
    const plugins = [{ id: 'fusion', enabled: false }]
    const { status, error } = await at.ask('chat', { model: 'gateway/fusion', plugins })
    expect([status, error?.message]).toEqual([400, expect.stringContaining('switched off')])
  })
})

describe('gateway/bodybuilder', () => {
  const BODIES = {
    requests: [
      { model: 'acme/gemini', messages: [{ role: 'user', content: 'Count to ten' }] },
      { model: 'acme/cohere-chat', messages: [{ role: 'user', content: 'Count to ten' }] },
    ],
  }
  /** The model writes the bodies when it is told to, and does what a body says otherwise. */
  const write: Scenario = ({ system, lines }) =>
    system.includes('You write request bodies')
      ? say(JSON.stringify(BODIES))
      : say(`Did: ${lines.at(-1)}`)
  const asked = { model: 'gateway/bodybuilder', text: 'Count to ten with Gemini and Command' }

  test.each(DOORS.flatMap(door => [false, true].map(stream => [door, stream] as const)))(
    'answers with bodies, which can be sent as they are: %s, streamed %p',
    async (door, stream) => {
      const at = await open(write, { limit: 1 })
      const { status, text, raw } = await at.ask(
        door,
        { ...asked, stream },
        { 'x-gateway-metadata': 'enabled' },
      )
      expect([status, JSON.parse(text)]).toEqual([200, BODIES])
      expect(JSON.stringify(raw.at(-1))).toContain('"strategy":"bodybuilder"')
      for (const body of JSON.parse(text).requests)
        expect(await at.ask('chat', body)).toMatchObject({ text: 'Did: user: Count to ten' })
      expect(at.generations.map(({ model }) => model).slice(1)).toEqual([
        ...['acme/gemini', 'acme/cohere-chat'],
      ])
      expect(at.generations.map(({ total_cost }) => total_cost)).toEqual([TURN, TURN, TURN])
      await expectBooks(at)
    },
  )

  test('names the models that the key may call, no routers, and keeps what was said', async () => {
    const at = await open(write)
    const { gateway, key } = at
    const rules = { name: 'g', allowed_models: ['acme/gemini', 'acme/openai-chat'] }
    const made = await createGuardrail(gateway, getOperator(gateway), rules as never)
    const assigned = { key_hashes: [key.hash] }
    await assignKeys(gateway, getOperator(gateway), made.data.id, assigned)
    await at.ask('chat', { ...asked, messages: CONVERSATION })
    const [request] = at.heard
    expect(request?.system).toContain('acme/gemini')
    for (const hidden of ['acme/cohere-chat', 'gateway/'])
      expect(request?.system).not.toContain(hidden)
    expect(request?.system).toContain('Be brief.')
    expect(request?.lines).toEqual(['user: One', 'assistant: Two', 'user: Three'])
  })

  const CONVERSATION = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'One' },
    { role: 'assistant', content: 'Two' },
    { role: 'user', content: 'Three' },
  ]

  test('without its plugin is refused, and with an option of it', async () => {
    const at = await open(() => say('{}'))
    const ask = (entry: Json) =>
      at.ask('chat', {
        model: 'gateway/bodybuilder',
        plugins: [{ id: 'bodybuilder-router', ...entry }],
      })
    expect((await ask({ enabled: false })).status).toBe(400)
    expect((await ask({ depth: 1 })).status).toBe(400)
    expect(at.heard).toEqual([])
  })
})
