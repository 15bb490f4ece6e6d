import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createPreset } from '../../../src/resources/presets.ts'
import type { ChatRequest } from '../../../src/translation/dialects/chat/schema.ts'
import { chat } from '../../../src/translation/dialects/chat.ts'
import type { MessagesRequest } from '../../../src/translation/dialects/messages/schema.ts'
import { messages as anthropic } from '../../../src/translation/dialects/messages.ts'
import { buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'

let gateway: Gateway

beforeEach(async () => {
  gateway = await testGateway()
})

const context = { id: 'gen-1', origin: buildTextCall().origin, session_id: null, betas: [] }
const messages = [{ role: 'user', content: 'Hi' }]

/** Creates the preset `p` with this config. */
const preset = (config: Record<string, unknown>, system_prompt: string | null = null) =>
  createPreset(gateway, getOperator(gateway), 'p', { config, system_prompt })

/** Translates a chat request with the preset `p` into a call. */
const call = (body: object = {}) =>
  chat.toCall(
    gateway,
    getOperator(gateway),
    { model: '@preset/p', messages, ...body } as ChatRequest,
    context,
  )

const named = (type: string, name: string, more: object = {}) => ({
  type,
  parameters: { name, ...more },
})

describe('tools are merged by their identity', () => {
  test('a function’s name, and the type of a provider’s tool', async () => {
    const held = [
      named('file_search', 'a'),
      { type: 'function', function: { name: 'f' } },
      { type: 'function', function: { name: 'g' } },
    ]
    await preset({ tools: held })
    const own = [
      { type: 'function', function: { name: 'g', description: 'Mine' } },
      named('code_interpreter', 'c'),
      named('file_search', 'other', { model: 'x' }),
    ]
    expect(
      call({ tools: own }).tools.map(tool =>
        tool.type === 'other' ? tool.value : [tool.name, tool.description],
      ),
    ).toEqual([
      named('file_search', 'other', { model: 'x' }),
      ['f', undefined],
      ['g', 'Mine'],
      named('code_interpreter', 'c'),
    ])
  })

  test('and each is read only a few times, however many there are', async () => {
    const types = (name: string) => Array.from({ length: 200 }, (_, i) => `${name}:${i}`)
    await preset({ tools: types('held').map(type => ({ type })) })
    let looks = 0
    const tools = types('own').map(type => ({
      get type() {
        looks++
        return type
      },
    }))
    expect(call({ tools }).tools).toHaveLength(400)
    expect(looks).toBeLessThan(10 * tools.length)
  })

  test('and are the call’s own if the preset has none, duplicates included', async () => {
    await preset({})
    const tools = [
      { type: 'function', function: { name: 'f' } },
      { type: 'function', function: { name: 'f' } },
    ]
    expect(call({ tools }).tools).toHaveLength(2)
  })
})

describe('a preset', () => {
  test('is not changed by the calls that use it', async () => {
    await preset(
      {
        model: 'a/b',
        provider: { order: ['X'] },
        stop: ['a'],
        tools: [{ type: 'function', function: { name: 'f' } }],
      },
      'Brief',
    )
    const before = JSON.stringify([...gateway.memory.presets.values()])
    const first = call()
    call({
      model: 'c/d@preset/p',
      stop: 'b',
      provider: { only: ['y'] },
      tools: [{ type: 'function', function: { name: 'f', strict: true } }],
    })
    expect(call()).toEqual(first)
    expect(JSON.stringify([...gateway.memory.presets.values()])).toBe(before)
  })

  test('gives its provider preferences to a call without any, also if it sets route', async () => {
    await preset({ model: 'a/b', provider: { sort: 'price', zdr: true } })
    expect(call({ route: 'sort' }).routing).toEqual({ sort: 'price', zdr: true, partition: 'none' })
    expect(call({ route: 'sort', provider: { sort: 'latency' } }).routing).toEqual({
      sort: 'latency',
      partition: 'none',
    })
  })

  test('sets neither user nor session nor streaming', async () => {
    await preset({ model: 'a/b' })
    const said = {
      user: 'ada',
      session_id: 's',
      trace: { a: 1 },
      stream: true,
      debug: { echo_upstream_body: true },
    }
    expect(call(said)).toMatchObject({
      session_id: 's',
      trace: { a: 1 },
      stream: true,
      echoUpstreamBody: true,
      user: expect.any(String),
    })
  })

  test('gives its models, in order, to a call that names none', async () => {
    await preset({ model: 'a/b', models: ['c/d'] })
    expect([
      call().models,
      call({ model: 'e/f@preset/p' }).models,
      call({ models: ['e/f'] }).models,
    ]).toEqual([
      ['a/b', 'c/d'],
      ['e/f', 'c/d'],
      ['a/b', 'e/f'],
    ])
  })

  test('in an Anthropic request gives its thinking only to a call without any', async () => {
    await preset({ model: 'a/b', reasoning: { enabled: true, max_tokens: 2048 } })
    const asked = (more: object) =>
      anthropic.toCall(
        gateway,
        getOperator(gateway),
        { model: '@preset/p', messages, ...more } as MessagesRequest,
        context,
      ).params.reasoning
    expect([asked({}), asked({ thinking: { type: 'disabled' } })]).toEqual([
      { enabled: true, max_tokens: 2048 },
      { enabled: false },
    ])
  })
})
