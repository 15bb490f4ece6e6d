import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { parseStream, readMetric, sendChat, waitUntil } from '../support/chat.ts'
import type { RawCall } from '../support/raw-client.ts'
import { buildLocalConfig, type Server, startServer } from '../support/server.ts'
import {
  delta,
  ending,
  type Script,
  sseHead,
  startUpstream,
  stream,
  type Upstream,
} from '../support/upstream.ts'

let server: Server
let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
  server = await startServer({ config: buildLocalConfig(upstream.url) })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

beforeEach(() => {
  upstream.hits.length = 0
})

/** Bun runs at most 256 fetches at once, unless configured otherwise before it starts. */
const PAST_THE_LIMIT = 300

test('O-04 three hundred concurrent streams all make progress', async () => {
  const said: Script = [
    delta('one'),
    { wait: 'two' },
    delta('two'),
    { wait: 'three' },
    delta('three'),
    { wait: 'end' },
    ending(),
  ]
  upstream.plan([sseHead(), said])
  const calls = Array.from({ length: PAST_THE_LIMIT }, () => sendChat(server, { stream: true }))
  for (const [word, gate] of [
    ['one', 'two'],
    ['two', 'three'],
    ['three', 'end'],
  ] as const) {
    await Promise.all(calls.map(call => call.sees(`"${word}"`)))
    expect(await readMetric(server, 'gateway_running_calls')).toBe(PAST_THE_LIMIT)
    expect(upstream.live).toBe(PAST_THE_LIMIT)
    upstream.open(gate)
  }
  for (const outcome of await outcomes(calls)) {
    expect(outcome.complete).toBe(true)
    expect(parseStream(outcome.body)).toMatchObject({
      text: 'onetwothree',
      errors: [],
      dones: 1,
      usages: [{}],
    })
  }
  await upstream.emptied()
})

test('O-04 three hundred concurrent whole answers all arrive', async () => {
  upstream.plan([{ wait: 'whole' }, stream()])
  const calls = Array.from({ length: PAST_THE_LIMIT }, () => sendChat(server))
  await upstream.hit(PAST_THE_LIMIT)
  expect(upstream.live).toBe(PAST_THE_LIMIT)
  upstream.open('whole')
  expect(
    new Set((await outcomes(calls)).map(({ status, complete }) => `${status} ${complete}`)),
  ).toEqual(new Set(['200 true']))
})

const MIB = 1024 * 1024
const AT_ONCE = 50

test('I4 a thousand finished streams leave no memory, call or connection behind', async () => {
  upstream.plan(stream(['some ', 'words ', 'of ', 'it']))
  await streamAway(200)
  const before = await memory()
  await streamAway(1000)
  await waitUntil(async () => (await memory()) < before + 30 * MIB)
  expect(await readMetric(server, 'gateway_running_calls')).toBe(0)
  await upstream.emptied()
  expect(upstream.hits).toHaveLength(1200)
})

async function streamAway(count: number): Promise<void> {
  for (let gone = 0; gone < count; gone += AT_ONCE) {
    const answers = await outcomes(
      Array.from({ length: AT_ONCE }, () => sendChat(server, { stream: true })),
    )
    expect(new Set(answers.map(({ body }) => parseStream(body).dones))).toEqual(new Set([1]))
  }
}

const outcomes = (calls: RawCall[]) => Promise.all(calls.map(call => call.outcome()))

/** Returns the resident memory of the server's process. */
async function memory(): Promise<number> {
  const status = await Bun.file(`/proc/${server.process.pid}/status`).text()
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
}
