import { afterEach, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { askModel } from '../../src/extensions/server-tool/inner.ts'
import type { ServerTool, ToolInvocation } from '../../src/extensions/server-tool.ts'
import { datetime } from '../../src/extensions/tools/datetime.ts'
import { TOOLS } from '../../src/extensions/tools/registry.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { hashUser } from '../../src/limits/call-budgets.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { openFilters } from '../../src/limits/filters.ts'
import { createGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import type { Subaccount } from '../../src/limits/ledger.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import type { ReceivedRequest, ScriptedAnswer } from '../support/fake-providers/fake-provider.ts'
import { expectBooks } from '../support/invariants.ts'
import { createSeededRandom } from '../support/random.ts'
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

/** Answers with calls of these functions, each with its arguments. */
const call = (...calls: [name: string, input: Json][]): { answer: ScriptedAnswer } => ({
  answer: {
    calls: calls.map(([name, input], i) => ({
      id: `call_${i}`,
      name,
      input: JSON.stringify(input),
    })),
    finish: 'tool_calls',
  },
})

/** The outer model calls these once; the inner turns are those that ask the question. */
const asking =
  (calls: [name: string, input: Json][], inner: Scenario): Scenario =>
  request => {
    if (isInner(request)) return inner(request)
    return request.results.length > 0 ? say('Done.') : call(...calls)
  }

const isInner = ({ lines }: ReceivedRequest) => lines.some(line => line.startsWith('user: Inner'))

const ADVICE: [string, Json][] = [['advisor', { prompt: 'Inner question' }]]
const TASK: [string, Json][] = [['subagent', { task_name: 't', task_description: 'Inner task' }]]
const ADVISOR = (parameters: Json = {}) => ({ tools: [{ type: 'gateway:advisor', parameters }] })
const SUBAGENT = (parameters: Json = {}) => ({ tools: [{ type: 'gateway:subagent', parameters }] })

/** Returns the item of the first use. */
const askForItem = async (at: LoopStage, body: Json): Promise<Json> => {
  const { status, error, uses } = await at.ask('responses', body)
  expect([status, error]).toEqual([200, null])
  return uses[0] ?? {}
}

/** Returns the config with a model that cannot call functions. */
const removeTools = (config: Json): Json => ({
  ...config,
  models: (config.models as { id: string; endpoints: Json[] }[]).map(model => ({
    ...model,
    endpoints: model.endpoints.map(endpoint =>
      model.id === 'acme/gemini' ? { ...endpoint, supported_parameters: ['max_tokens'] } : endpoint,
    ),
  })),
})

describe('a model that is asked within a call', () => {
  test.each(DOORS)('is a step on record and in the sum: %s', async door => {
    const at = await open(
      asking(ADVICE, () => say('Wait.')),
      { limit: 1 },
    )
    const headers = { 'x-gateway-metadata': 'enabled' }
    const { raw, text } = await at.ask(door, ADVISOR({ model: 'acme/gemini' }), headers)
    expect(text).toBe('Done.')
    expect(at.generations).toMatchObject([
      {
        model: 'acme/openai-chat',
        total_cost: 3n * TURN,
        native_tokens_prompt: 30,
        provider_responses: [
          { model_permaslug: 'acme/openai-chat' },
          { model_permaslug: 'acme/openai-chat' },
          { model_permaslug: 'acme/gemini' },
        ],
        steps: [
          { type: 'model', name: 'acme/openai-chat', cost: TURN },
          { type: 'tool', name: 'gateway:advisor', function: 'advisor', cost: 0n, is_error: false },
          { type: 'model', name: 'acme/gemini', cost: TURN, depth: 1, finish_reason: 'stop' },
          { type: 'model', name: 'acme/openai-chat', cost: TURN },
        ],
      },
    ])
    expect(raw.at(-1)?.gateway_metadata).toMatchObject({
      pipeline: [
        {
          type: 'server_tools',
          name: 'gateway:advisor',
          data: { models: ['acme/gemini'], turns: [{ model: 'acme/gemini' }] },
        },
      ],
    })
    await expectBooks(at)
  })

  test('gives back the memory of its answer, also where it failed', async () => {
    for (const words of ['word '.repeat(100_000), ' '.repeat(300_000)]) {
      const at = await open(asking(ADVICE, () => say(words)))
      await at.ask('chat', ADVISOR({ model: 'acme/gemini' }))
      expect(at.gateway.traffic.admission.memory.used).toBe(0)
      await at.close()
    }
  })

  test('counts for the end user of the call, and for its own model', async () => {
    const at = await open(asking(ADVICE, () => say('Wait.')))
    const { ledger, memory } = at.gateway
    const { workspace_id } = memory.owner
    const rest = { limit_usd: 1, reset_interval: 'monthly' as const }
    const budgets = [
      { by: 'end_user' as const, ...rest },
      ...['acme/gemini', 'acme/openai-chat'].map(name => ({ by: 'model' as const, name, ...rest })),
    ]
    const rule = getDefaultGuardrailId(workspace_id)
    await updateGuardrail(at.gateway, getOperator(at.gateway), rule, { budgets })
    let opened = 0
    const { openSubaccounts } = ledger
    ledger.openSubaccounts = async accounts => {
      const close = await openSubaccounts(accounts)
      opened += 1
      return () => {
        opened -= 1
        close()
      }
    }
    await askForItem(at, { ...ADVISOR({ model: 'acme/gemini' }), user: 'ada' })
    const spent = (account: Subaccount) => ledger.getSpent(account, 'monthly', false)
    expect(spent(`end_user workspace ${workspace_id} ${hashUser(workspace_id, 'ada')}`)).toBe(
      3n * TURN,
    )
    expect(spent(`model workspace ${workspace_id} acme/gemini`)).toBe(TURN)
    expect(spent(`model workspace ${workspace_id} acme/openai-chat`)).toBe(2n * TURN)
    expect(opened).toBe(0)
    await expectBooks(at)
  })

  test('is the model of the entry, of the tool call, or of the request', async () => {
    const at = await open(asking(ADVICE, () => say('Wait.')))
    expect(await askForItem(at, ADVISOR({ model: 'acme/gemini' }))).toMatchObject({
      model: 'acme/gemini',
    })
    expect(await askForItem(at, ADVISOR())).toMatchObject({ model: 'acme/openai-chat' })
    await at.close()
    const prompt = 'Inner question'
    const chosen = await open(
      asking([['advisor', { prompt, model: 'acme/cohere-chat' }]], () => say('Wait.')),
    )
    expect(await askForItem(chosen, ADVISOR())).toMatchObject({ model: 'acme/cohere-chat' })
    expect(await askForItem(chosen, ADVISOR({ model: 'acme/gemini' }))).toMatchObject({
      model: 'acme/gemini',
    })
  })

  test('gets nothing but the question, unless the transcript is forwarded', async () => {
    const at = await open(asking(ADVICE, () => say('Wait.')))
    await at.ask('chat', { ...ADVISOR({ instructions: 'Be kind.' }), text: 'Secret' })
    const inner = at.heard.find(isInner)
    expect([inner?.system, inner?.lines, inner?.tools]).toEqual([
      'Be kind.',
      ['user: Inner question'],
      [],
    ])
  })

  test.each(['openai-chat', 'anthropic-messages', 'gemini', 'bedrock-converse'])(
    'reads the conversation with its tools as text if it is forwarded: %s',
    async protocol => {
      const at = await open(request => {
        if (isInner(request)) return say('Wait.')
        if (request.results.length === 0) return call(['datetime', {}])
        return request.results.length === 1 ? call(...ADVICE) : say('Done.')
      })
      const { text } = await at.ask('chat', {
        text: 'Secret',
        tools: [
          {
            type: 'gateway:advisor',
            parameters: { model: `acme/${protocol}`, forward_transcript: true },
          },
          { type: 'gateway:datetime' },
        ],
      })
      expect(text).toBe('Done.')
      const inner = at.heard.find(isInner)
      expect([inner?.calls, inner?.results, inner?.tools]).toEqual([[], [], []])
      const said = inner?.lines.join('\n')
      for (const words of ['Secret', '[Called the tool datetime with {}]', 'UTC', 'Inner question'])
        expect(said).toContain(words)
    },
  )

  test('takes several turns with tools of its own, and no more than it may', async () => {
    const at = await open(
      asking(TASK, ({ choice }) => (choice === 'none' ? say('Noon.') : call(['datetime', {}]))),
      { limit: 1 },
    )
    const tools = [{ type: 'gateway:datetime' }]
    expect(await askForItem(at, SUBAGENT({ tools, max_tool_calls: 2 }))).toMatchObject({
      ...{ status: 'completed', outcome: 'Noon.', task_name: 't', call_id: 'call_0' },
    })
    expect(at.generations[0]?.steps.map(({ name, depth }) => [name, depth])).toEqual([
      ['acme/openai-chat', undefined],
      ['gateway:subagent', undefined],
      ['acme/openai-chat', 1],
      ['gateway:datetime', 1],
      ['acme/openai-chat', 1],
      ['gateway:datetime', 1],
      ['acme/openai-chat', 1],
      ['acme/openai-chat', undefined],
    ])
    expect(at.generations).toMatchObject([{ total_cost: 5n * TURN }])
    await expectBooks(at)
  })

  test('stands side by side with others: each is charged once', async () => {
    const both = Array.from({ length: 8 }, (_, i): [string, Json] => [
      i % 2 ? 'advisor__1' : 'advisor',
      { prompt: `Inner ${i}` },
    ])
    const at = await open(
      asking(both, ({ lines }) => say(`To ${lines.at(-1)}`)),
      { limit: 1 },
    )
    const { uses } = await at.ask('responses', {
      tools: [
        { type: 'gateway:advisor' },
        { type: 'gateway:advisor', parameters: { name: 'B', model: 'acme/gemini' } },
      ],
    })
    expect(uses.map(({ advice, instance_name, model }) => [advice, instance_name, model])).toEqual(
      both.map(([name, { prompt }], i) => [
        `To user: ${prompt}`,
        name,
        i % 2 ? 'acme/gemini' : 'acme/openai-chat',
      ]),
    )
    expect(at.generations).toMatchObject([{ total_cost: 10n * TURN }])
    await expectBooks(at)
  })

  test('of a tool within a tool within a tool is the last', async () => {
    const deep: ServerTool = {
      name: 'deep',
      schema: datetime.schema,
      readOptions: () => ({}),
      findObstacle: () => null,
      takesTurns: true,
      listFunctions: () => [{ name: 'deep', description: '', parameters: { type: 'object' } }],
      async run(world, invocation: ToolInvocation) {
        const { error, text } = await askModel(world, invocation, {
          models: ['acme/openai-chat'],
          messages: [{ role: 'user', blocks: [{ type: 'text', text: 'Deeper' }] }],
          params: {},
          serverTools: {
            requests: [
              {
                ...{ name: 'deep', identity: 'deep', type: 'gateway:deep' },
                ...{ options: {}, field: 'tools.0' },
              },
            ],
            stops: [{ type: 'step_count_is', step_count: 5 }],
          },
        })
        return { text: error ?? text, isError: error !== null }
      },
    }
    const at = await open(
      ({ results }) => (results[0] ? say(`Heard: ${results[0].text}`) : call(['deep', {}])),
      { tools: [deep], limit: 1 },
    )
    const { text } = await at.ask('chat', { tools: [{ type: 'gateway:deep' }] })
    const end = 'Calls within calls end here, at a depth of 3.'
    expect(text).toBe(`Heard: Heard: Heard: Heard: ${end}`)
    expect(at.generations).toMatchObject([{ total_cost: 8n * TURN }])
    await expectBooks(at)
  })

  test('that fails is a result, and the call goes on', async () => {
    const at = await open(
      asking(ADVICE, () => 'is overloaded'),
      { limit: 1 },
    )
    const item = await askForItem(at, ADVISOR({ model: 'acme/gemini' }))
    expect(item).toMatchObject({ status: 'failed', error: expect.any(String) })
    expect(item.advice).toBeUndefined()
    expect(at.generations).toMatchObject([{ total_cost: 2n * TURN, error_type: null }])
    await expectBooks(at)
  })

  test('that says nothing is a result, and charged', async () => {
    const at = await open(
      asking(ADVICE, () => say(' ')),
      { limit: 1 },
    )
    expect(await askForItem(at, ADVISOR())).toMatchObject({
      ...{ status: 'failed', error: 'The model gave no answer.' },
    })
    expect(at.generations).toMatchObject([{ total_cost: 3n * TURN }])
    await expectBooks(at)
  })

  test('that does not exist is a 400 in the request, and a result in a call', async () => {
    const at = await open(
      asking([['advisor', { prompt: 'Inner', model: 'acme/none' }]], () => say('No.')),
    )
    const { status, error } = await at.ask('chat', ADVISOR({ model: 'acme/none' }))
    expect([status, error?.metadata]).toMatchObject([400, { field: 'tools.0.parameters.model' }])
    expect(at.heard).toEqual([])
    expect(await askForItem(at, ADVISOR())).toMatchObject({
      ...{ status: 'failed', error: expect.stringContaining('acme/none') },
    })
  })

  test('calls no tools if its model cannot, and is not asked if it must', async () => {
    const at = await open(
      asking(TASK, () => say('By heart.')),
      { changeConfig: removeTools },
    )
    const body = SUBAGENT({ model: 'acme/gemini', tools: [{ type: 'gateway:datetime' }] })
    expect(await askForItem(at, body)).toMatchObject({ outcome: 'By heart.' })
    expect(at.heard.filter(isInner).map(({ tools }) => tools)).toEqual([[]])
    const strict = { ...body, provider: { require_parameters: true } }
    expect(await askForItem(at, strict)).toMatchObject({ status: 'failed' })
    expect(at.heard.filter(isInner)).toHaveLength(1)
  })
})

test('a turn stays at the provider of the one before, whatever came between', async () => {
  const addEndpoint = (config: Json): Json => ({
    ...config,
    models: (config.models as { id: string; endpoints: Json[] }[]).map(model => ({
      ...model,
      endpoints: [...model.endpoints, { ...model.endpoints[0], provider: 'cohere-chat' }],
    })),
  })
  const at = await open(
    asking(ADVICE, () => say('Wait.')),
    { changeConfig: addEndpoint, parts: { random: createSeededRandom(7) } },
  )
  for (let i = 0; i < 20; i++) await at.ask('chat', ADVISOR({ model: 'acme/gemini' }))
  for (const { steps } of at.generations) {
    const [first, last] = steps.filter(({ type, depth }) => type === 'model' && !depth)
    expect(last?.provider_name).toBe(first?.provider_name ?? '')
  }
  expect(new Set(at.generations.map(({ provider_name }) => provider_name)).size).toBe(2)
})

describe('what a call may do holds within it', () => {
  test('a limit that has not enough left is a result, and the call goes on', async () => {
    const at = await open(
      asking(ADVICE, () => say('No.')),
      { limit: 0.01, config: { limits: { strict: false } } },
    )
    const { text, usage } = await at.ask('chat', ADVISOR({ max_completion_tokens: 90_000 }))
    expect([text, at.heard.length]).toEqual(['Done.', 2])
    expect(usage.server_tool_use_details).toMatchObject({ ended_by: 'payment_required' })
    expect(at.heard.at(-1)?.results[0]?.text).toContain('Key limit exceeded')
    expect(at.generations).toMatchObject([
      {
        ...{ total_cost: 2n * TURN, error_type: null },
        steps: [
          { cost: TURN },
          { type: 'tool' },
          { cost: 0n, depth: 1, is_error: true },
          { cost: TURN, ended_by: 'payment_required' },
        ],
      },
    ])
    await expectBooks(at)
  })

  test.each([
    [{ type: 'max_cost', max_cost_in_dollars: Number(2n * TURN) / 1e9 }],
    [{ type: 'max_tokens_used', max_tokens: 30 }],
  ])('conditions count its turns: %j', async condition => {
    const at = await open(request => {
      if (isInner(request)) return say('Go on.')
      return request.choice === 'none' ? say('Enough.') : call(...ADVICE)
    })
    const { text } = await at.ask('chat', { ...ADVISOR(), stop_server_tools_when: [condition] })
    // One turn, one within it, and the last one without tools.
    expect([text, at.heard.length]).toEqual(['Enough.', 3])
  })

  async function guard({ gateway, key }: LoopStage, rules: Json): Promise<void> {
    const operator = getOperator(gateway)
    const made = await createGuardrail(gateway, operator, { name: 'g', ...rules } as never)
    await assignKeys(gateway, operator, made.data.id, { key_hashes: [key.hash] })
  }

  test('models that a guardrail does not allow are not asked', async () => {
    const at = await open(
      asking([['advisor', { prompt: 'Inner', model: 'acme/gemini' }]], () => say('No.')),
    )
    await guard(at, { allowed_models: ['acme/openai-chat'] })
    expect((await at.ask('chat', ADVISOR({ model: 'acme/gemini' }))).status).toBe(404)
    expect(at.heard).toEqual([])
    expect(await askForItem(at, ADVISOR())).toMatchObject({ status: 'failed' })
    expect(at.heard.filter(isInner)).toEqual([])
  })

  test('providers that the request leaves out are not asked', async () => {
    const at = await open(
      asking([['advisor', { prompt: 'Inner', model: 'acme/gemini' }]], () => say('No.')),
    )
    const body = { ...ADVISOR(), provider: { ignore: ['gemini'] } }
    expect(await askForItem(at, body)).toMatchObject({ status: 'failed' })
    expect(at.heard.filter(isInner)).toEqual([])
  })

  test.each([
    ['its question', { prompt: 'Inner eve@example.com' }, {}],
    ['its instructions', { prompt: 'Inner' }, { instructions: 'For eve@example.com' }],
  ])('content filters read %s', async (_, input, parameters) => {
    const at = await open(asking([['advisor', input]], () => say('Fine.')))
    await guard(at, { content_filter_builtins: [{ slug: 'email', action: 'redact' }] })
    await at.ask('chat', ADVISOR(parameters))
    const inner = at.heard.find(isInner)
    const heard = `${inner?.system} ${inner?.lines}`
    expect([heard.includes('[EMAIL]'), heard.includes('eve@')]).toEqual([true, false])
  })

  test('content filters read its answer', async () => {
    const at = await open(
      asking(ADVICE, () => say('Ask eve@example.com')),
      { limit: 1 },
    )
    const rule = { guardrail_id: 'g-1', scope: 'key', action: 'redact', slug: 'email' } as const
    const filters = openFilters([{ ...rule, output: true }])
    const { gateway } = at
    const policy = getPolicy(gateway, { ...getOperator(gateway), key_hash: 'nobody' })
    gateway.memory.policies.set(at.key.hash, { ...policy, filters })
    const item = await askForItem(at, ADVISOR())
    expect(at.heard.at(-1)?.results[0]?.text).toBe('Ask [EMAIL]')
    expect(item.advice).toBe('Ask [EMAIL]')
    expect(JSON.stringify(item)).not.toContain('eve@')
  })

  test('content filters that block its question end the call', async () => {
    const at = await open(
      asking([['advisor', { prompt: 'Inner eve@example.com' }]], () => say('No.')),
      { limit: 1 },
    )
    await guard(at, { content_filter_builtins: [{ slug: 'email', action: 'block' }] })
    expect((await at.ask('chat', ADVISOR())).error).toMatchObject({ code: 403 })
    expect(at.heard.filter(isInner)).toEqual([])
    expect(at.generations).toMatchObject([{ total_cost: TURN }])
    await expectBooks(at)
  })

  test('a tool that the workspace has disabled is not there for it', async () => {
    const at = await open(asking(TASK, () => say('No.')))
    const { gateway } = at
    const [workspace] = gateway.memory.workspaces.keys()
    await updateWorkspace(gateway, getOperator(gateway), workspace ?? '', {
      disabled_server_tools: ['openrouter:datetime'],
    } as never)
    const tools = [{ type: 'gateway:datetime' }]
    expect((await at.ask('chat', SUBAGENT({ tools }))).status).toBe(403)
  })
})

describe('a call that ends while a model is asked within it', () => {
  test.each([false, true])('as its client leaves is charged once; streamed %p', async stream => {
    const client = new AbortController()
    const at = await open(
      asking(ADVICE, () => {
        client.abort()
        return say('Too late.')
      }),
      { limit: 1 },
    )
    const closed = new Promise(resolve => at.gateway.events.on('call.closed', resolve))
    const response = at.send('chat', { ...ADVISOR(), stream }, { signal: client.signal })
    const reading = Promise.resolve(response).then(async answer => {
      const reader = answer.body?.getReader()
      client.signal.addEventListener('abort', () => void reader?.cancel().catch(() => undefined))
      while (!(await reader?.read())?.done);
    })
    await Promise.allSettled([reading, closed])
    await at.gateway.recorder.flush()
    expect(at.heard).toHaveLength(2)
    expect(at.generations).toMatchObject([{ cancelled: true }])
    expect(at.generations[0]?.steps.map(({ depth }) => depth)).toEqual([undefined, undefined, 1])
    await expectBooks(at)
  })

  test('as the gateway stops ends the tools within it', async () => {
    const begun = Promise.withResolvers<void>()
    const waiting: ServerTool = {
      ...(datetime as ServerTool),
      name: 'waiting',
      priceUse: () => 5_000n,
      listFunctions: () => [{ name: 'waiting', description: '', parameters: { type: 'object' } }],
      run: (_, { cancellation }) =>
        new Promise((_resolve, reject) => {
          cancellation.listen(reject)
          begun.resolve()
        }),
    }
    const at = await open(
      asking(TASK, () => call(['waiting', {}])),
      { tools: [...TOOLS, waiting], limit: 1 },
    )
    const reading = at.ask('chat', SUBAGENT({ tools: [{ type: 'gateway:waiting' }] }))
    await begun.promise
    await at.gateway.traffic.calls.drain(600_000)
    expect((await reading).status).toBe(503)
    expect(at.generations).toMatchObject([{ total_cost: 2n * TURN + 5_000n }])
    await expectBooks(at)
  })
})

test.each([
  [ADVISOR({ stream: 'yes' }), 'stream'],
  [SUBAGENT({ inherit_functions: true }), 'inherit_functions'],
  [SUBAGENT({ inherited_function_names: ['f'] }), 'inherited_function_names'],
  [SUBAGENT({ max_tool_calls: 26 }), 'max_tool_calls'],
  [SUBAGENT({ tools: [{ type: 'function', name: 'f' }] }), 'tools.0'],
  [SUBAGENT({ tools: [{ type: 'gateway:subagent' }] }), 'tools.0'],
  [SUBAGENT({ tools: [{ type: 'openrouter:none' }] }), 'tools.0.type'],
  [SUBAGENT({ tools: [{ type: 'gateway:datetime', parameters: { timezone: 'X' } }] }), 'tools.0'],
  [ADVISOR({ name: ' ' }), 'name'],
  [ADVISOR({ name: 'a/b' }), 'name'],
  [ADVISOR({ reasoning: { effort: 'low', max_tokens: 5 } }), 'reasoning'],
  [{ tools: [...ADVISOR().tools, ...ADVISOR().tools] }, 'name'],
  [{ tools: [...ADVISOR({ name: 'a' }).tools, ...ADVISOR({ name: 'a ' }).tools] }, 'name'],
])('what cannot be done is a 400 that names it: %j', async (body, field) => {
  const at = await open(() => say('Hi'))
  const { status, error } = await at.ask('responses', body)
  const { field: named } = (error?.metadata ?? {}) as { field?: string }
  expect([status, named]).toEqual([
    400,
    expect.stringMatching(new RegExp(`^tools\\.\\d\\.parameters\\.${field}`)),
  ])
  expect(at.heard).toEqual([])
})
