import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { examineGateway } from '../../src/app/doctor.ts'
import { type Json, parseObject, readObjects } from '../../src/base/json.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail, deleteGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { updateKey } from '../../src/resources/keys.ts'
import { createPreset } from '../../src/resources/presets.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import { startMcpServer, type TestMcpServer, textResult } from '../support/mcp-server.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'
import { assembleResponse, type ResponseEvent } from '../support/response-events.ts'
import { DOORS, LOOP_PROTOCOLS, type LoopStage, openLoopStage } from '../support/tool-loop.ts'

/*
 * MCP in the form of OpenAI's API, on POST /responses: lists, calls and approvals as items, over
 * providers that know nothing of it.
 */

const SECRET = 'token-that-nobody-should-see-1234567890'
const PRICE = 0.25

let near: TestMcpServer
let far: TestMcpServer
let stage: LoopStage
let deleted: unknown[]
/** The calls that the model makes as long as it has no result. */
let calls: { id: string; name: string; input: string }[]
let scenario: Scenario

const once: Scenario = heard =>
  heard.results.length > 0
    ? { answer: { text: 'Done.', finish: 'stop' } }
    : { answer: { text: 'Let me see. ', calls, finish: 'tool_calls' } }

const remove = { id: 'call_1', name: 'near__delete', input: '{"path":"a.txt"}' }

beforeAll(async () => {
  near = startMcpServer({
    tools: [
      {
        name: 'add',
        description: 'Adds two numbers',
        annotations: { readOnlyHint: true },
        run: ({ a, b }) => textResult(String(Number(a) + Number(b))),
      },
      {
        name: 'delete',
        run: input => {
          deleted.push(input)
          return textResult(`Deleted ${input.path}`)
        },
      },
      { name: 'fail', run: () => textResult('It broke', true) },
      { name: 'whoami', run: () => textResult('I am eve@example.com') },
    ],
  })
  far = startMcpServer({ tools: [{ name: 'add', run: () => textResult('far away') }] })
  stage = await openLoopStage(heard => scenario(heard), {
    limit: 100,
    config: {
      security: { allow_private_urls: [new URL(near.url).host, new URL(far.url).host] },
      mcp_servers: { priced: { url: near.url, usd_per_call: PRICE, authorization: SECRET } },
    },
  })
})
afterAll(async () => {
  await stage.close()
  await Promise.all([near.close(), far.close()])
})
beforeEach(() => {
  deleted = []
  calls = [remove]
  scenario = once
  stage.heard.length = 0
})

const nearTool = (fields: Json = {}): Json => ({
  ...{ type: 'mcp', server_label: 'near', server_url: near.url, authorization: SECRET },
  ...fields,
})
const ask = (body: Json) => stage.ask('responses', body)
const USER = { type: 'message', role: 'user', content: 'Hi' }
const approve = (request: Json, fields: Json = {}): Json => ({
  ...{ type: 'mcp_approval_response', approval_request_id: request.id, approve: true },
  ...fields,
})

const readOutput = (raw: Json[], stream: boolean): Json[] =>
  readObjects((stream ? assembleResponse(raw as ResponseEvent[]) : raw[0])?.output)

/** Asks, and returns the items of the answer. */
async function askItems(body: Json): Promise<Json[]> {
  const { raw, status, error } = await ask(body)
  expect([status, error]).toEqual([200, null])
  return readOutput(raw, body.stream === true)
}

/** Asks until there is a request for approval, and returns the conversation up to it. */
async function askForApproval(body: Json = {}): Promise<{ input: Json[]; request: Json }> {
  const output = await askItems({ tools: [nearTool()], ...body })
  const request = output.at(-1) ?? {}
  expect(request.type).toBe('mcp_approval_request')
  return { input: [USER, ...output], request }
}

const forget = (items: Json[]): Json[] =>
  items.map(({ id: _, approval_request_id: given, ...item }) =>
    given == null ? item : { ...item, approval_request_id: 'given' },
  )

describe.each(LOOP_PROTOCOLS)('over %s', protocol => {
  const model = `acme/${protocol}`

  test('a use that needs no approval is a list, a call and an answer, whole as streamed', async () => {
    calls = [{ id: 'call_1', name: 'near__add', input: '{"a":20,"b":22}' }]
    const tools = [nearTool({ require_approval: 'never', allowed_tools: ['add'] })]
    const whole = await askItems({ model, tools })
    expect(whole).toMatchObject([
      {
        ...{ type: 'mcp_list_tools', server_label: 'near', error: null },
        tools: [{ name: 'add', description: 'Adds two numbers', input_schema: { type: 'object' } }],
      },
      { type: 'message' },
      {
        ...{ type: 'mcp_call', server_label: 'near', name: 'add', arguments: '{"a":20,"b":22}' },
        ...{ output: '42', error: null, status: 'completed', approval_request_id: null },
      },
      { type: 'message' },
    ])
    expect(stage.heard[0]?.tools).toEqual(['near__add'])
    expect(stage.heard[1]?.results[0]?.text).toContain('42')
    const { raw } = await ask({ model, tools, stream: true })
    expect(forget(readOutput(raw, true))).toEqual(forget(whole))
    const about = (at: number) =>
      raw.filter(event => event.output_index === at).map(({ type }) => String(type).slice(9))
    expect(about(0)).toEqual([
      ...['output_item.added', 'mcp_list_tools.in_progress', 'mcp_list_tools.completed'],
      'output_item.done',
    ])
    expect(about(2)).toEqual([
      ...['output_item.added', 'mcp_call.in_progress'],
      ...['mcp_call_arguments.delta', 'mcp_call_arguments.done', 'mcp_call.completed'],
      'output_item.done',
    ])
  })

  test.each([false, true])(
    'an approved use runs before the next turn; streamed %p',
    async stream => {
      const { input, request } = await askForApproval({ model, stream })
      expect(request).toEqual({
        ...{ type: 'mcp_approval_request', id: request.id, server_label: 'near', name: 'delete' },
        arguments: '{"path":"a.txt"}',
      })
      expect([deleted, stage.heard.length]).toEqual([[], 1])
      const tools = [nearTool()]
      const next = [...input, approve(request), { ...USER, content: 'Hurry' }]
      const output = await askItems({ model, tools, input: next, stream })
      expect(deleted).toEqual([{ path: 'a.txt' }])
      expect(output).toMatchObject([
        {
          ...{ type: 'mcp_call', name: 'delete', output: 'Deleted a.txt', status: 'completed' },
          approval_request_id: request.id,
        },
        { type: 'message' },
      ])
      expect(stage.heard).toHaveLength(2)
      expect(stage.heard[1]?.calls).toMatchObject([{ name: 'near__delete' }])
      expect(stage.heard[1]?.results[0]?.text).toContain('Deleted a.txt')
      // The conversation goes on, and nothing runs again.
      const then = [...next, ...output, { ...USER, content: 'And?' }]
      const last = await askItems({ model, tools, input: then, stream })
      expect(last).toMatchObject([{ type: 'message' }])
      expect(deleted).toHaveLength(1)
      expect(stage.heard[2]?.calls).toMatchObject([{ name: 'near__delete' }])
      expect(stage.heard[2]?.results[0]?.text).toContain('Deleted a.txt')
      // Without the tool it is a call of a function and its result all the same.
      await askItems({
        model: protocol === 'openai-responses' ? 'acme/openai-chat' : model,
        input: then,
        stream,
      })
      expect(stage.heard[3]?.results[0]?.text).toContain('Deleted a.txt')
    },
  )

  test.each([false, true])('a refused use is told to the model; streamed %p', async stream => {
    const { input, request } = await askForApproval({ model, stream })
    const refusal = approve(request, { approve: false, reason: 'Too dangerous' })
    const next = { model, tools: [nearTool()], input: [...input, refusal], stream }
    for (let i = 0; i < 2; i++) {
      expect(await askItems(next)).toMatchObject([{ type: 'message' }])
      expect(stage.heard.at(-1)?.results[0]?.text).toContain(
        'did not approve this call: Too danger',
      )
    }
    expect(deleted).toEqual([])
  })
})

test('two servers work side by side, in every API', async () => {
  calls = [
    { id: 'call_1', name: 'near__add', input: '{"a":1,"b":2}' },
    { id: 'call_2', name: 'far__add', input: '{}' },
  ]
  const farTool = { server_label: 'far', server_url: far.url, require_approval: 'never' }
  const { type: _, ...nearOne } = nearTool({ require_approval: 'never' })
  for (const door of DOORS)
    for (const stream of [false, true]) {
      stage.heard.length = 0
      const prefixed = [nearOne, farTool].map(parameters => ({ type: 'gateway:mcp', parameters }))
      const reading = await stage.ask(door, { tools: prefixed, stream })
      expect([reading.status, reading.text]).toEqual([200, 'Let me see. Done.'])
      const [first, second] = stage.heard[1]?.results ?? []
      expect([first?.text, second?.text]).toEqual([
        expect.stringContaining('3'),
        expect.stringContaining('far away'),
      ])
    }
  const tools = [nearTool({ require_approval: 'never' }), { type: 'mcp', ...farTool }]
  const output = await askItems({ tools })
  expect(output.map(({ type, server_label }) => [type, server_label])).toEqual([
    ['mcp_list_tools', 'near'],
    ['mcp_list_tools', 'far'],
    ['message', undefined],
    ['mcp_call', 'near'],
    ['mcp_call', 'far'],
    ['message', undefined],
  ])
  scenario = () => ({ answer: { text: 'Done.', finish: 'stop' } })
  const choice = { type: 'mcp', server_label: 'far', name: 'add' }
  const chosen = await ask({ tools, tool_choice: choice })
  expect(chosen.status).toBe(200)
  const wrong = await ask({ tools, tool_choice: { ...choice, server_label: 'nowhere' } })
  expect(wrong.status).toBe(400)
})

test('one turn may run one use and ask for another', async () => {
  calls = [{ id: 'call_0', name: 'near__add', input: '{"a":1,"b":2}' }, remove]
  const tools = [nearTool({ require_approval: { never: { tool_names: ['add'] } } })]
  const output = await askItems({ tools })
  expect(output.map(({ type }) => type)).toEqual([
    ...['mcp_list_tools', 'message', 'mcp_call', 'mcp_approval_request'],
  ])
  const request = output.at(-1) ?? {}
  await askItems({ tools, input: [USER, ...output, approve(request)] })
  const heard = stage.heard.at(-1)
  expect(heard?.calls.map(({ name }) => name)).toEqual(['near__add', 'near__delete'])
  expect(heard?.results.map(({ text }) => /\n(.+)\n/.exec(text)?.[1])).toEqual([
    '3',
    'Deleted a.txt',
  ])
})

test('a use that fails says so, and so does one whose arguments are no JSON', async () => {
  calls = [
    { id: 'call_1', name: 'near__fail', input: '{}' },
    { id: 'call_2', name: 'near__add', input: '[1' },
  ]
  const tools = [nearTool({ require_approval: 'never' })]
  for (const stream of [false, true]) {
    const { raw } = await ask({ tools, stream })
    const items = readOutput(raw, stream).filter(({ type }) => type === 'mcp_call')
    expect(items).toMatchObject([
      { ...{ name: 'fail', arguments: '{}', output: null, status: 'failed' }, error: 'It broke' },
      {
        ...{ name: 'add', arguments: '[1', output: null, status: 'failed' },
        error: 'The arguments are not a JSON object.',
      },
    ])
    const failed = raw.filter(({ type }) => type === 'response.mcp_call.failed')
    expect(failed).toHaveLength(stream ? 2 : 0)
  }
})

describe('an approval', () => {
  const refused = async (input: Json[], tools: Json[] = [nearTool()]) => {
    const { status, error } = await ask({ tools, input })
    expect([status, deleted]).toEqual([400, []])
    return (error?.metadata as Json | undefined)?.field
  }

  test('is of nothing but what was asked', async () => {
    const { input, request } = await askForApproval()
    const before = input.slice(0, -1)
    const at = `input.${input.length}`
    const id = `${at}.approval_request_id`
    const withRequest = (changed: Json) =>
      refused([...before, { ...request, ...changed }, approve(request)])
    expect(await withRequest({ arguments: '{"path":"b.txt"}' })).toBe(id)
    expect(await withRequest({ name: 'add' })).toBe(id)
    expect(await withRequest({ server_label: 'other' })).toBe(at)
    expect(await refused([...before, approve(request)])).toBe(
      `input.${input.length - 1}.approval_request_id`,
    )
    const forged = { ...request, id: `mcpr_0_1_${'0'.repeat(32)}` }
    expect(await refused([...before, forged, approve(forged)])).toBe(id)
    const elsewhere = [nearTool({ server_url: far.url })]
    expect(await refused([...input, approve(request)], elsewhere)).toBe(id)
    expect(await refused([...input, approve(request), approve(request, { approve: false })])).toBe(
      `input.${input.length + 1}`,
    )
    // None of that has used it.
    await askItems({ tools: [nearTool()], input: [...input, approve(request), approve(request)] })
    expect(deleted).toHaveLength(1)
  })

  test('is used once, also by calls at once', async () => {
    const { input, request } = await askForApproval()
    const body = { tools: [nearTool()], input: [...input, approve(request)] }
    const both = await Promise.all([ask(body), ask(body)])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 400])
    expect(deleted).toHaveLength(1)
    expect((await ask(body)).status).toBe(400)
    expect(deleted).toHaveLength(1)
  })

  test('is charged with its use, and on record before the turn', async () => {
    const tools = [{ type: 'mcp', server_label: 'priced' }]
    calls = [{ ...remove, name: 'priced__delete' }]
    const { input, request } = await askForApproval({ tools })
    const { spent } = stage.money
    await askItems({ tools, input: [...input, approve(request)] })
    expect(stage.money.spent - spent).toBeGreaterThan(BigInt(PRICE * 1e9))
    expect(stage.money.held).toBe(0n)
    expect(stage.generations.at(-1)?.steps).toMatchObject([
      { type: 'tool', function: 'priced__delete', is_error: false, cost: BigInt(PRICE * 1e9) },
      { type: 'model' },
    ])
    expect((await examineGateway(stage.gateway)).data.filter(({ ok }) => !ok)).toEqual([])
  })

  test('is charged and on record, too, if no model answers, and used', async () => {
    const tools = [{ type: 'mcp', server_label: 'priced' }]
    calls = [{ ...remove, name: 'priced__delete' }]
    const { input, request } = await askForApproval({ tools })
    const { spent } = stage.money
    scenario = () => 'is overloaded'
    const body = { tools, input: [...input, approve(request)] }
    expect((await ask(body)).status).toBeGreaterThanOrEqual(500)
    expect(deleted).toHaveLength(1)
    expect(stage.money).toEqual({ held: 0n, spent: spent + BigInt(PRICE * 1e9) })
    expect(stage.generations.at(-1)).toMatchObject({
      total_cost: BigInt(PRICE * 1e9),
      steps: [
        { type: 'tool', function: 'priced__delete' },
        { type: 'model', is_error: true },
      ],
    })
    scenario = once
    expect((await ask(body)).status).toBe(400)
    expect(deleted).toHaveLength(1)
    expect((await examineGateway(stage.gateway)).data.filter(({ ok }) => !ok)).toEqual([])
  })

  test('waits for a limit that has enough left', async () => {
    const { gateway } = stage
    const tools = [{ type: 'mcp', server_label: 'priced' }]
    calls = [{ ...remove, name: 'priced__delete' }]
    const { input, request } = await askForApproval({ tools })
    const body = { tools, input: [...input, approve(request)] }
    await updateKey(gateway, getOperator(gateway), stage.key.hash, { limit: 0.0001 })
    const recorded = stage.generations.length
    expect((await ask(body)).status).toBe(402)
    expect([deleted, stage.generations.length]).toEqual([[], recorded])
    await updateKey(gateway, getOperator(gateway), stage.key.hash, { limit: 100 })
    await askItems(body)
    expect(deleted).toHaveLength(1)
  })
})

describe('what filters find', () => {
  const PATH = 'eve@example.com'
  const guard = async (action: string) => {
    const { gateway, key } = stage
    const made = await createGuardrail(gateway, getOperator(gateway), {
      name: 'g',
      content_filter_builtins: [{ slug: 'email', action }],
    } as never)
    await assignKeys(gateway, getOperator(gateway), made.data.id, { key_hashes: [key.hash] })
    return async () => {
      await deleteGuardrail(gateway, getOperator(gateway), made.data.id)
    }
  }
  const askBefore = async () => {
    calls = [{ ...remove, name: 'near__whoami', input: '{}' }]
    const { input, request } = await askForApproval()
    return { tools: [nearTool()], input: [...input, approve(request)] }
  }

  test('in the result of an approved use is redacted before a model sees it', async () => {
    const body = await askBefore()
    const end = await guard('redact')
    await askItems(body)
    await end()
    expect(stage.heard.at(-1)?.results[0]?.text).toContain('I am')
    expect(JSON.stringify(stage.heard.at(-1))).not.toContain(PATH)
  })

  test('and block ends the call, which is on record', async () => {
    const body = await askBefore()
    const end = await guard('block')
    const before = stage.heard.length
    const { status } = await ask(body)
    await end()
    expect([status, stage.heard.length]).toEqual([403, before])
    expect(stage.generations.at(-1)?.steps).toMatchObject([{ function: 'near__whoami' }])
    expect(stage.money.held).toBe(0n)
  })
})

const isJson = (text: string): boolean => parseObject(text) !== undefined

test('whole answers and streams have the same items, whatever the model calls', async () => {
  const below = createSeededIntegers(SEED)
  const CALLS: [name: string, input: string][] = [
    ['near__add', '{"a":1,"b":2}'],
    ['near__add', '{"a": one}'],
    ['near__fail', '{}'],
    ['near__delete', '{"path":"é\\n"}'],
    ['near__whoami', '{"deep":{"list":[1,null,"x"]}}'],
    ['far__add', ''],
    ['nobodys', '{}'],
  ]
  const pick = () => CALLS[below(CALLS.length)] as [string, string]
  const rules = ['always', 'never', { never: { tool_names: ['add'] } }]
  for (let i = 0; i < (LONG ? 4_000 : 30); i++) {
    const protocol = LOOP_PROTOCOLS[below(LOOP_PROTOCOLS.length)] ?? ''
    const turns = Array.from({ length: 1 + below(3) }, (_, turn) =>
      Array.from({ length: 1 + below(4) }, (__, n) => {
        const [name, input] = pick()
        // Only these two write arguments as a text, which may be no JSON.
        const isText = protocol.startsWith('openai-')
        const id = `call_${turn}_${n}`
        return { id, name, input: isText || isJson(input) ? input : '{}' }
      }),
    )
    let at = 0
    scenario = () => {
      const turn = turns[at]
      at += 1
      return {
        answer: turn
          ? { ...(at % 2 ? { text: 'So. ' } : {}), calls: turn, finish: 'tool_calls' }
          : { text: 'Done.', finish: 'stop' },
      }
    }
    const body = {
      model: `acme/${protocol}`,
      tools: [
        nearTool({ require_approval: rules[below(rules.length)] }),
        { type: 'mcp', server_label: 'far', server_url: far.url, require_approval: 'never' },
      ],
    }
    const whole = await askItems(body)
    const heard = stage.heard.splice(0)
    at = 0
    const streamed = await askItems({ ...body, stream: true })
    expect(forget(streamed)).toEqual(forget(whole))
    expect(stage.heard.splice(0).map(({ results }) => results)).toEqual(
      heard.map(({ results }) => results),
    )
    for (const { type, status } of whole)
      if (type === 'mcp_call') expect(['completed', 'failed']).toContain(String(status))
    const isAsked = whole.some(({ type }) => type === 'mcp_approval_request')
    expect(whole.at(-1)?.type === 'message').toBe(!isAsked && at > turns.length)
  }
  expect(stage.money.held).toBe(0n)
}, 900_000)

test('presets merge their servers by label', async () => {
  const { gateway } = stage
  const farTool = { type: 'mcp', server_label: 'far', server_url: far.url }
  await createPreset(gateway, getOperator(gateway), 'servers', {
    system_prompt: null,
    config: {
      model: 'acme/openai-chat',
      tools: [nearTool(), { ...farTool, require_approval: 'never' }],
    },
  })
  calls = [{ id: 'call_1', name: 'near__add', input: '{"a":1,"b":2}' }]
  const { raw } = await ask({
    model: '@preset/servers',
    tools: [nearTool({ require_approval: 'never', allowed_tools: ['add'] })],
  })
  expect(stage.heard[0]?.tools.toSorted()).toEqual(['far__add', 'near__add'])
  expect(readOutput(raw, false).at(-2)).toMatchObject({ type: 'mcp_call', output: '3' })
  expect(JSON.stringify(raw)).not.toContain(SECRET)
})

test('no secret is in an answer, a record or a request to the model', async () => {
  const { gateway } = stage
  for (const stream of [false, true]) {
    const { raw } = await ask({
      tools: [nearTool({ require_approval: 'never' })],
      ...{ stream, debug: { echo_upstream_body: stream } },
    })
    expect(JSON.stringify(raw)).not.toContain(SECRET)
  }
  expect(near.requests.at(-1)?.headers.get('authorization')).toBe(`Bearer ${SECRET}`)
  expect(JSON.stringify(stage.heard)).not.toContain(SECRET)
  const text = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value)
  expect(JSON.stringify(stage.generations, text)).not.toContain(SECRET)
  expect(gateway.traffic.calls.size).toBe(0)
})

test.each<[string, Json[], string]>([
  ['a label twice', [{}, {}], 'tools.1.type'],
  [
    'a connector',
    [{ server_url: undefined, connector_id: 'connector_gmail' }],
    'tools.0.connector_id',
  ],
  ['a connector beside a server', [{ connector_id: 'connector_gmail' }], 'tools.0.connector_id'],
  [
    'a label that the config has not',
    [{ server_url: undefined, authorization: undefined }],
    'tools.0.type',
  ],
  ['a label of other characters', [{ server_label: 'a b' }], 'tools.0.server_label'],
  ['an unknown rule', [{ require_approval: 'sometimes' }], 'tools.0.require_approval'],
  ['an unknown field', [{ hologram: 1 }], 'tools.0.hologram'],
])('%s is a 400 that names it', async (_, entries, field) => {
  const { status, error } = await ask({ tools: entries.map(entry => nearTool(entry)) })
  expect([status, (error?.metadata as Json | undefined)?.field]).toEqual([400, field])
})
