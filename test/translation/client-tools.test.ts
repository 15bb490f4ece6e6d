import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Json, readObjects } from '../../src/base/json.ts'
import { fitToEndpoint } from '../../src/engine/kinds/text/understanding.ts'
import type { TextCall } from '../../src/language/call.ts'
import type { FunctionTool, Tool } from '../../src/language/tool.ts'
import { nameStandIns } from '../../src/translation/client-tools.ts'
import { ResponseOutput } from '../../src/translation/dialects/responses/output.ts'
import { toMessages } from '../../src/translation/dialects/responses/request.ts'
import { protocols } from '../../src/translation/protocols/registry.ts'
import { buildEndpoint, buildTextCall } from '../support/call.ts'
import { readThreadCpu } from '../support/cpu.ts'

/* Functions that stand in for tools of clients: there and back, for any tools. */

const FOREIGN = ['openai-chat', 'anthropic-messages', 'gemini', 'bedrock-converse', 'cohere-chat']

function callWith(values: Json[], input: Json[] = []): TextCall {
  const tools = values.map(
    (value): Tool =>
      value.type === 'function'
        ? ({ ...value, type: 'function' } as FunctionTool)
        : { type: 'other', dialect: 'responses', value },
  )
  const messages = toMessages([{ role: 'user', content: 'Hi' }, ...input])
  const call = buildTextCall({ dialect: 'responses', tools, messages })
  return { ...call, standIns: nameStandIns(call) }
}

const fit = (call: TextCall, protocol = 'openai-chat') =>
  fitToEndpoint(call, buildEndpoint({ protocol }))

const namesOf = (call: TextCall) =>
  call.tools.flatMap(tool => (tool.type === 'function' ? [tool.name] : []))

/** Has a model call the function, and returns the item that the client gets. */
function itemOf(call: TextCall, name: string, input: string): Json {
  const output = new ResponseOutput('a', call)
  output.read({ type: 'tool-call-start', choice: 0, index: 0, id: 'c', name })
  output.read({ type: 'tool-call-delta', choice: 0, index: 0, input })
  output.end('completed')
  return output.items[0] ?? {}
}

const member = (name: string, type = 'function'): Json => ({ type, name, parameters: {} })
const namespace = (name: string, ...tools: Json[]): Json => ({ type: 'namespace', name, tools })

const Name = fc.oneof(
  fc.constantFrom('a', 'a__b', 'b', 'b__c', 'x'.repeat(64), `${'x'.repeat(63)}y`),
  fc.stringMatching(/^[a-zA-Z0-9_-]{1,64}$/),
)
const Member = fc.record({
  type: fc.constantFrom('function', 'custom'),
  name: Name,
  parameters: fc.constant({ type: 'object', properties: {} }),
})
const ClientTool = fc.oneof(
  Member,
  fc.record({
    type: fc.constant('namespace'),
    name: Name,
    tools: fc.uniqueArray(Member, { selector: ({ name }) => name, maxLength: 12 }),
  }),
  fc.constantFrom<Json[]>(
    { type: 'shell' },
    { type: 'local_shell' },
    { type: 'apply_patch' },
    { type: 'computer_use_preview' },
    { type: 'tool_search', execution: 'client' },
  ),
)
const ClientTools = fc.uniqueArray(ClientTool, {
  selector: tool => `${tool.type === 'namespace'} ${(tool as Json).name ?? tool.type}`,
  maxLength: 12,
})

describe('functions in place of the tools of a client', () => {
  test('have names of their own, and calls of them come back as those of the tools', () => {
    fc.assert(
      fc.property(ClientTools, values => {
        const call = callWith(values as Json[])
        const names = namesOf(fit(call))
        expect(new Set(names).size).toBe(names.length)
        expect(names.every(name => name.length >= 1 && name.length <= 64)).toBe(true)
        for (const [name, tool] of call.standIns?.tools ?? []) {
          expect(names).toContain(name)
          if (tool.form !== 'function' && tool.form !== 'custom') continue
          const item = itemOf(call, name, '{"input":"x"}')
          const type = tool.form === 'custom' ? 'custom_tool_call' : 'function_call'
          expect(item).toMatchObject({ type, name: tool.name, call_id: 'c' })
          expect(item.namespace).toBe(tool.namespace)
        }
      }),
    )
  })

  test('have the same names in the conversation that goes on', () => {
    fc.assert(
      fc.property(ClientTools, values => {
        const first = callWith(values as Json[])
        for (const [name, tool] of first.standIns?.tools ?? []) {
          if (tool.form !== 'function' && tool.form !== 'custom') continue
          const item = itemOf(first, name, '{"input":"x"}')
          const output = { type: `${item.type}_output`, call_id: 'c', output: 'ok' }
          const next = callWith(values as Json[], [item, output])
          for (const protocol of FOREIGN) {
            const fitted = fit(next, protocol)
            const called = fitted.messages.flatMap(({ blocks }) =>
              blocks.flatMap(block => (block.type === 'tool-call' ? [block.name] : [])),
            )
            expect(called).toEqual([name])
            expect(fitted.messages.at(-1)).toMatchObject({ role: 'tool', tool_call_id: 'c' })
          }
        }
      }),
      { numRuns: 25 },
    )
  })

  test('are taken by every provider, 500 of a namespace too', () => {
    const tools = [...Array(500).keys()].map(i => member(`tool_${i}_${'x'.repeat(50)}`))
    const call = callWith([namespace('mcp__a_server_with_a_long_name', ...tools)])
    for (const protocol of FOREIGN) {
      const endpoint = buildEndpoint({ protocol })
      const fitted = fitToEndpoint(call, endpoint)
      expect(new Set(namesOf(fitted)).size).toBe(500)
      const started = readThreadCpu()
      const body = JSON.stringify(protocols.text[protocol]?.buildRequest(fitted, endpoint).body)
      expect(body).toContain('tool_499')
      expect(readThreadCpu() - started).toBeLessThan(2_000)
    }
  })

  test('are at most so many, in a time that others can wait', () => {
    const many = (count: number) =>
      [...Array(count).keys()].map(i =>
        namespace(`n${i}`, ...[...Array(1_024).keys()].map(j => member(`${'x'.repeat(58)}${j}`))),
      )
    const started = readThreadCpu()
    expect(callWith(many(8)).standIns?.tools.size).toBe(8_192)
    expect(() => callWith(many(9))).toThrow('tools: expected at most 8192 in all namespaces')
    expect(readThreadCpu() - started).toBeLessThan(2_000)
  })

  test('whose names collide are told apart', () => {
    const call = callWith([
      member('a__b__c'),
      namespace('a', member('b__c')),
      namespace('a__b', member('c')),
      namespace('x'.repeat(40), member('y'.repeat(64)), member(`${'y'.repeat(63)}z`)),
      { type: 'custom', name: 'shell' },
      { type: 'shell' },
    ])
    const names = namesOf(fit(call))
    expect(new Set(names).size).toBe(7)
    expect(names[0]).toBe('a__b__c')
    const owners = names.slice(1).map(name => call.standIns?.tools.get(name))
    expect(owners.map(owner => owner?.namespace?.slice(0, 4))).toEqual([
      ...['a', 'a__b', 'xxxx', 'xxxx'],
      ...[undefined, undefined],
    ])
  })

  test('of tools that are gone have names all the same', () => {
    const item = { type: 'function_call', call_id: 'c', namespace: 'crm', name: 'find' }
    const custom = { type: 'custom_tool_call', call_id: 'd', name: 'gone', input: 'x' }
    const history = [
      { ...item, arguments: '{}' },
      custom,
      { type: 'function_call_output', call_id: 'c', output: 'ok' },
      { type: 'custom_tool_call_output', call_id: 'd', output: 'ok' },
    ]
    const [, said] = fit(callWith([], history)).messages
    expect(said?.blocks).toMatchObject([{ name: 'crm__find' }, { name: 'gone' }])
  })

  test('are called by choices of the tools', () => {
    const call = callWith([namespace('crm', member('find'), member('note', 'custom'))])
    const choose = (tool_choice: unknown) =>
      fit({ ...call, params: { tool_choice: tool_choice as never } }).params.tool_choice
    const chosen = (name: string) => ({ type: 'function', function: { name } }) as never
    expect(choose({ type: 'function', function: { name: 'find', namespace: 'crm' } })).toEqual(
      chosen('crm__find'),
    )
    const tools = [{ type: 'namespace', name: 'crm' }]
    expect(choose({ type: 'allowed_tools', allowed_tools: { mode: 'auto', tools } })).toEqual({
      type: 'allowed_tools',
      allowed_tools: { mode: 'auto', tools: [chosen('crm__find'), chosen('crm__note')] },
    } as never)
  })
})

describe('a call of a kind of its own', () => {
  test.each<[Json, Json, Json]>([
    [
      { type: 'shell' },
      { commands: ['ls', 'pwd'], timeout_ms: 5 },
      {
        type: 'shell_call',
        action: { commands: ['ls', 'pwd'], timeout_ms: 5, max_output_length: null },
      },
    ],
    [
      { type: 'local_shell' },
      { command: ['ls', '-l'], working_directory: '/' },
      {
        type: 'local_shell_call',
        action: { type: 'exec', command: ['ls', '-l'], env: {}, working_directory: '/' },
      },
    ],
    [
      { type: 'apply_patch' },
      { type: 'update_file', path: 'a', diff: '+b' },
      { type: 'apply_patch_call', operation: { type: 'update_file', path: 'a', diff: '+b' } },
    ],
    [
      { type: 'computer_use_preview', display_width: 8, display_height: 6 },
      { type: 'click', x: 1, y: 2 },
      {
        type: 'computer_call',
        action: { type: 'click', x: 1, y: 2 },
        pending_safety_checks: [],
      },
    ],
    [
      { type: 'tool_search', execution: 'client', description: 'Finds tools' },
      { query: 'weather' },
      { type: 'tool_search_call', execution: 'client', arguments: { query: 'weather' } },
    ],
  ])('%j comes back in its form, and goes on as what it was', (tool, input, item) => {
    const call = callWith([tool])
    const [name = ''] = namesOf(fit(call))
    const made = itemOf(call, name, JSON.stringify(input))
    expect(made).toMatchObject({ ...item, call_id: 'c', status: 'completed' })
    const output = {
      ...{ type: `${item.type}_output`.replace('search_call_', 'search_'), call_id: 'c', id: 'c' },
      ...{ output: item.type === 'shell_call' ? [] : 'ok', status: 'completed' },
    }
    const result =
      item.type === 'computer_call' ? { ...output, output: { image_url: 'x' } } : output
    const next = fit(callWith([tool], [made, result]))
    expect(next.messages[1]?.blocks).toMatchObject([{ type: 'tool-call', name, id: 'c' }])
    expect(next.messages[2]).toMatchObject({ role: 'tool', tool_call_id: 'c' })
  })

  test('with arguments that mean nothing is shown as that of a function', () => {
    for (const [type, input] of [
      ['shell', '{"commands":"ls"}'],
      ['local_shell', '{"command":[]}'],
      ['apply_patch', '{"type":"update_file","path":"a"}'],
      ['computer_use_preview', '{"type":"explode"}'],
      ['shell', '{"commands":["l'],
    ] as const) {
      const call = callWith([{ type }])
      const [name = ''] = namesOf(fit(call))
      expect(itemOf(call, name, input)).toMatchObject({ type: 'function_call', arguments: input })
    }
  })
})

describe('items that bring tools', () => {
  const weather = namespace('mcp__weather', member('get'))
  const loading: [string, Json[]][] = [
    ['additional_tools', [{ type: 'additional_tools', role: 'developer', tools: [weather] }]],
    [
      'tool_search_output of the client',
      [
        { type: 'tool_search_call', call_id: 'c', execution: 'client', arguments: { query: 'w' } },
        { type: 'tool_search_output', call_id: 'c', execution: 'client', tools: [weather] },
      ],
    ],
    [
      'tool_search_output of a provider',
      [
        { type: 'tool_search_call', id: 't', execution: 'server', arguments: {}, call_id: null },
        { type: 'tool_search_output', id: 'u', execution: 'server', tools: [weather] },
      ],
    ],
  ]
  test.each(loading)('%s: any model has them, and calls them', (_, items) => {
    const call = callWith([], items)
    for (const protocol of FOREIGN) {
      const fitted = fit(call, protocol)
      expect(namesOf(fitted)).toEqual(['mcp__weather__get'])
      expect(() =>
        protocols.text[protocol]?.buildRequest(fitted, buildEndpoint({ protocol })),
      ).not.toThrow()
    }
    expect(itemOf(call, 'mcp__weather__get', '{}')).toMatchObject({
      ...{ type: 'function_call', namespace: 'mcp__weather', name: 'get' },
    })
    const native = fit(call, 'openai-responses')
    expect([native.tools, native.messages]).toEqual([[], call.messages])
  })

  test('one that is declared twice is there once', () => {
    const item = { type: 'additional_tools', tools: [member('a'), weather, weather] }
    expect(namesOf(fit(callWith([member('a'), weather], [item])))).toEqual([
      'a',
      'mcp__weather__get',
    ])
  })

  test('a setting for the turns to come holds for them', () => {
    const item = { type: 'configuration_update', reasoning: { effort: 'low' } }
    const { params, messages } = fit(callWith([], [item]))
    expect(params.reasoning).toEqual({ effort: 'low' })
    expect(messages).toHaveLength(1)
  })
})

describe('D05 arguments of open calls', () => {
  const parts = fc.array(
    fc.oneof(
      fc.constant({ at: 'text' as const }),
      fc.constant({ at: 'thought' as const }),
      fc.constantFrom(0, 1, 2).map(index => ({ at: index })),
    ),
    { maxLength: 40 },
  )
  test('are whole, whatever comes between their pieces', () => {
    fc.assert(
      fc.property(parts, order => {
        const output = new ResponseOutput('a', callWith([member('f')]))
        const inputs = ['{"a":1}', '{"b":[2]}', '{"c":"3"}']
        const left = inputs.map(input => [...input])
        const read = output.read.bind(output)
        for (const index of left.keys())
          read({ type: 'tool-call-start', choice: 0, index, id: `c${index}`, name: 'f' })
        const add = (index: number, input: string) =>
          read({ type: 'tool-call-delta', choice: 0, index, input })
        for (const { at } of order)
          if (at === 'text') read({ type: 'text-delta', choice: 0, text: 'x' })
          else if (at === 'thought')
            read({ type: 'reasoning-delta', choice: 0, text: 'y', details: [] })
          else add(at, left[at]?.shift() ?? '')
        for (const [index, rest] of left.entries()) add(index, rest.join(''))
        output.end('completed')
        const calls = output.items.filter(({ type }) => type === 'function_call')
        expect(calls.map(call => call.arguments)).toEqual(inputs)
        const ids = output.items.map(({ id }) => id)
        expect(new Set(ids).size).toBe(ids.length)
      }),
    )
  })
})

describe('D08 ids of calls that a provider begins anew', () => {
  const Turn = fc.array(fc.constantFrom('call_0', 'call_1', 'call_0_2', 'x'), {
    minLength: 1,
    maxLength: 3,
  })
  test('belong to the results of their turn, by position where one turn repeats one', () => {
    fc.assert(
      fc.property(fc.array(Turn, { maxLength: 8 }), turns => {
        const items = turns.flatMap((ids, turn) => [
          ...ids.map((call_id, i) => ({
            ...{ type: 'function_call', call_id, name: 'f', arguments: `"${turn}.${i}"` },
          })),
          ...ids.map((call_id, i) => ({
            ...{ type: 'function_call_output', call_id, output: `${turn}.${i}` },
          })),
        ])
        const { messages } = callWith([], items)
        const calls = messages.flatMap(({ blocks }) =>
          blocks.flatMap(block => (block.type === 'tool-call' ? [block] : [])),
        )
        expect(new Set(calls.map(({ id }) => id)).size).toBe(calls.length)
        const outputs = new Map(
          messages.flatMap(({ role, tool_call_id = '', blocks: [only] }) =>
            role === 'tool' && only?.type === 'text' ? [[tool_call_id, only.text]] : [],
          ),
        )
        for (const { id, input } of calls) expect(`"${outputs.get(id)}"`).toBe(input)
      }),
    )
  })

  test('a call that was never answered takes no result of a later one', () => {
    const call = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
    const again = { role: 'user', content: 'Again' }
    const output = { type: 'function_call_output', call_id: 'c', output: 'ok' }
    const { messages } = callWith([], [call, again, call, output])
    expect(messages.at(-1)?.tool_call_id).toBe('c_2')
  })

  test('ten thousand of one are told apart in time', () => {
    const turn = [
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: 'ok' },
    ]
    const started = readThreadCpu()
    const { messages } = callWith(
      [],
      [...Array(10_000)].flatMap(() => turn),
    )
    expect(messages).toHaveLength(20_001)
    expect(readThreadCpu() - started).toBeLessThan(5_000)
  })
})

test('D06 a result of texts and pictures reaches every provider whole', () => {
  for (const type of ['function_call', 'custom_tool_call']) {
    const call = callWith(
      [],
      [
        { type, call_id: 'c', name: 'f', arguments: '', input: '' },
        {
          ...{ type: `${type}_output`, call_id: 'c' },
          output: [
            { type: 'input_text', text: 'one' },
            { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=' },
            { type: 'input_text', text: 'two' },
          ],
        },
      ],
    )
    for (const protocol of [...FOREIGN, 'openai-responses']) {
      const endpoint = buildEndpoint({ protocol })
      const body = protocols.text[protocol]?.buildRequest(fitToEndpoint(call, endpoint), endpoint)
      const text = JSON.stringify(body)
      for (const piece of ['one', 'two', 'iVBORw0KGgo=']) expect(text).toContain(piece)
      if (protocol === 'openai-chat' && type === 'function_call')
        expect(text).toContain('"arguments":"{}"')
    }
  }
})

describe('items as clients send them back', () => {
  // Libraries fill in what an item does not have.
  const ITEMS: Json[] = [
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'x' }] },
    { type: 'reasoning', summary: [{ type: 'summary_text', text: 's' }] },
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: 'ok' },
    { type: 'custom_tool_call', call_id: 'd', name: 'f', input: 'x' },
    { type: 'custom_tool_call_output', call_id: 'd', output: 'ok' },
    { type: 'tool_search_call', call_id: 'e', execution: 'client', arguments: {} },
    { type: 'tool_search_output', call_id: 'e', tools: [] },
    { type: 'code_interpreter_call' },
    { type: 'image_generation_call' },
  ]
  const OPTIONAL = [
    ...['id', 'status', 'phase', 'namespace', 'content', 'encrypted_content', 'signature', 'code'],
    ...['outputs', 'result', 'container_id', 'annotations', 'logprobs', 'format', 'async'],
    ...['created_by', 'caller'],
  ]
  test('may have null for all that they do not have', () => {
    fc.assert(
      fc.property(fc.subarray(OPTIONAL), names => {
        const nulls = Object.fromEntries(names.map(name => [name, null]))
        const items = ITEMS.map(item => ({ ...nulls, ...item, id: 'of another conversation' }))
        const call = callWith([], items)
        for (const protocol of [...FOREIGN, 'openai-responses']) {
          const endpoint = buildEndpoint({ protocol })
          const fitted = fitToEndpoint(call, endpoint)
          const body = protocols.text[protocol]?.buildRequest(fitted, endpoint).body ?? {}
          expect(readObjects(body.messages ?? body.input ?? body.contents).length).toBeGreaterThan(
            3,
          )
        }
      }),
      { numRuns: 30 },
    )
  })
})
