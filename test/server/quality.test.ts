import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { computeBounds } from '../../src/engine/health.ts'
import { buildRoutesConfig, readMetric, sendChat } from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  finish,
  type Hit,
  type Script,
  sseHead,
  startUpstream,
  stream,
  type Upstream,
  usage,
} from '../support/upstream.ts'

const NAMES = ['able', 'broken'] as const
type Name = (typeof NAMES)[number]

const ENOUGH = 20
const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'add',
      parameters: { type: 'object', required: ['a'], properties: { a: {} } },
    },
  },
]

let upstreams: Record<Name, Upstream>
let server: LocalServer

beforeAll(async () => {
  const [able, broken] = await Promise.all([startUpstream(), startUpstream()])
  upstreams = { able, broken }
})
afterAll(() => Promise.all(NAMES.map(name => upstreams[name].close())))

/** Calls the tool with these arguments if there is one; otherwise answers with its own name. */
const answering =
  (name: Name, input: string) =>
  ({ json }: Hit): Script => {
    const { tools, stream: streamed } = json as { tools?: unknown; stream?: boolean }
    if (!tools) return streamed ? stream([name]) : completion(name)
    const tool_calls = [
      { index: 0, id: 'call_1', type: 'function', function: { name: 'add', arguments: input } },
    ]
    if (streamed)
      return [
        sseHead(),
        delta({ role: 'assistant', tool_calls }),
        finish('tool_calls', usage()),
        done(),
        chunkedEnd(),
      ]
    return completion('', {
      choices: [
        { index: 0, message: { role: 'assistant', tool_calls }, finish_reason: 'tool_calls' },
      ],
    })
  }

beforeEach(async () => {
  const urls = Object.fromEntries(NAMES.map(name => [name, upstreams[name].url]))
  server = await startLocalServer(
    buildRoutesConfig({ 'acme/small': urls }, { routing: { failures: 0 } }),
  )
  upstreams.able.answer(answering('able', '{"a":1}'))
  upstreams.broken.answer(answering('broken', '{"a":'))
  forget()
})
afterEach(() => server[Symbol.asyncDispose]())

const forget = () => {
  for (const name of NAMES) upstreams[name].hits.length = 0
}
const hits = () => NAMES.map(name => upstreams[name].hits.length)

async function ask(times: number, body: object): Promise<void> {
  for (let i = 0; i < times; i++) expect((await sendChat(server, body).outcome()).status).toBe(200)
}
const askOnly = (name: Name, body: object = {}, times = ENOUGH) =>
  ask(times, { tools: TOOLS, ...body, provider: { only: [name] } })

describe.each([false, true])(
  'one of two endpoints calls tools wrongly (streamed: %p)',
  streamed => {
    test('after a few failures calls with tools go to the other, plain ones to both', async () => {
      await askOnly('able', { stream: streamed })
      await askOnly('broken', { stream: streamed })
      forget()
      await ask(20, { tools: TOOLS, stream: streamed })
      expect(hits()).toEqual([20, 0])
      await ask(40, { stream: streamed })
      const [able = 0, broken = 0] = hits()
      expect([able > 20, broken > 0, able + broken]).toEqual([true, true, 60])
    })
  },
)

test('a dry run shows their tool-call quality, and the resulting order', async () => {
  await askOnly('able')
  await askOnly('broken')
  const response = await server.fetch('/chat/completions', {
    key: server.management_key,
    json: {
      model: 'acme/small',
      messages: [{ role: 'user', content: 'Hi' }],
      tools: TOOLS,
      debug: { dry_run: true },
    },
  })
  const { endpoints } = (await response.json()) as {
    endpoints: { provider: string; probability: number; sound_tool_calls: object }[]
  }
  expect(
    endpoints.map(({ provider, probability, sound_tool_calls }) => [
      provider,
      probability,
      sound_tool_calls,
    ]),
  ).toEqual([
    ['able', 1, computeBounds({ ok: ENOUGH, failed: 0 }) ?? {}],
    ['broken', 0, computeBounds({ ok: 0, failed: ENOUGH }) ?? {}],
  ])
})

test('an endpoint that calls tools wrongly is avoided only if another is better', async () => {
  await askOnly('broken')
  forget()
  await ask(40, { tools: TOOLS })
  expect(Math.min(...hits())).toBeGreaterThan(0)
})

test('a sort by price tries the cheapest, and a sort by exacto the one good at tools', async () => {
  await askOnly('able')
  await askOnly('broken')
  forget()
  await ask(3, { tools: TOOLS, provider: { sort: 'exacto', ignore: [] } })
  await ask(3, { model: 'acme/small:exacto' })
  expect(hits()).toEqual([6, 0])
  await ask(3, { tools: TOOLS, provider: { order: ['broken'] } })
  expect(hits()).toEqual([6, 3])
})

test('the quality of tool calls is a metric', async () => {
  await askOnly('able', {}, 2)
  await askOnly('broken', {}, 1)
  const of = (provider: Name, isSound: boolean) =>
    readMetric(
      server,
      `gateway_tool_answers_total{provider="${provider}",model="acme/small",sound="${isSound}"}`,
    )
  expect(
    await Promise.all([
      of('able', true),
      of('able', false),
      of('broken', true),
      of('broken', false),
    ]),
  ).toEqual([2, 0, 0, 1])
})
