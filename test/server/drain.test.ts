import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import {
  buildRoutesConfig,
  COST,
  fetchGeneration,
  fetchKeyState,
  type Generation,
  parseStream,
  readGenerationId,
  readMetric,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { openDatabase } from '../support/database.ts'
import { request } from '../support/raw-client.ts'
import { runGateway, type Server, startServer } from '../support/server.ts'
import {
  completion,
  delta,
  ending,
  sseHead,
  startUpstream,
  type Upstream,
} from '../support/upstream.ts'

let upstream: Upstream
let server: Server

beforeEach(async () => {
  upstream = await startUpstream()
  upstream.answer(({ json }) =>
    (json as { stream?: boolean }).stream
      ? [sseHead(), delta('Hel'), delta('lo'), { wait: 'end' }, ending()]
      : [{ wait: 'end' }, completion('Hello')],
  )
})

afterEach(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const start = async (...args: string[]) => {
  server = await startServer({
    config: buildRoutesConfig({ 'acme/small': { local: upstream.url } }),
    args,
  })
}

/** Starts streams and waits until they run. */
async function running(count: number) {
  const calls = Array.from({ length: count }, () => sendChat(server, { stream: true }))
  await Promise.all(calls.map(call => call.sees('"lo"')))
  return calls
}

/** The status that new work gets, or 0 when the server no longer listens. */
const told = (path: string) => request(`${server.url}${path}`, { headers: bearer() }).outcome()
const bearer = () => ({ authorization: `Bearer ${server.inference_key}` })

async function terminate() {
  server.process.kill('SIGTERM')
  await waitUntil(async () => (await told('/health')).status !== 200)
}

describe('O-07 SIGTERM', () => {
  test('lets fifty running streams finish, refuses new work and exits with 0', async () => {
    await start()
    const calls = await running(50)
    await terminate()
    expect([0, 503]).toContain((await told('/ready')).status)
    expect([0, 503]).toContain((await sendChat(server).outcome()).status)
    expect(upstream.hits).toHaveLength(50)
    expect(server.process.exitCode).toBeNull()

    upstream.open('end')
    for (const outcome of await Promise.all(calls.map(call => call.outcome()))) {
      expect(outcome).toMatchObject({ status: 200, complete: true })
      expect(parseStream(outcome.body)).toMatchObject({
        text: 'Hello',
        errors: [],
        dones: 1,
        usages: [{ usage: { cost: COST } }],
      })
    }
    expect(await server.process.exited).toBe(0)
  })

  test('lets a pending whole answer finish', async () => {
    await start()
    const call = sendChat(server)
    await upstream.hit()
    await terminate()
    upstream.open('end')
    expect(await call.outcome()).toMatchObject({ status: 200, complete: true })
    expect(await server.process.exited).toBe(0)
  })

  test('ends at once when nothing runs, even with open connections', async () => {
    await start('--drain', '600')
    const idle = request(`${server.url}/health`, { headers: { connection: 'keep-alive' } })
    expect((await idle.outcome()).status).toBe(200)
    expect((await server.stop()).code).toBe(0)
  })

  test('loses no record of what finished while it drained', async () => {
    await start()
    const calls = await running(20)
    await terminate()
    upstream.open('end')
    const ids = (await Promise.all(calls.map(call => call.outcome()))).map(readGenerationId)
    await server.process.exited

    const { inference_key: key, data } = server
    server = await startServer({ data, config: buildRoutesConfig({}) })
    for (const id of ids)
      expect(await fetchGeneration(server, id, key)).toMatchObject({
        finish_reason: 'stop',
        total_cost: COST,
      })
    expect((await fetchKeyState(server, key)).usage).toBeCloseTo(20 * COST, 9)
  })
})

describe('O-07 --drain 1', () => {
  test('ends a longer stream with an error, one usage and [DONE], not with a reset', async () => {
    await start('--drain', '1')
    const calls = await running(20)
    const began = performance.now()
    await terminate()
    const outcomes = await Promise.all(calls.map(call => call.outcome()))
    expect(performance.now() - began).toBeGreaterThan(900)
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: 200, complete: true, ended: 'clean' })
      const { events, text, errors, usages, dones } = parseStream(outcome.body)
      expect({ text, dones }).toEqual({ text: 'Hello', dones: 1 })
      expect(errors).toMatchObject([
        { choices: [{ finish_reason: 'error' }], error: { code: 503 } },
      ])
      expect(usages).toMatchObject([{ choices: [], usage: { completion_tokens: 1 } }])
      expect(events.slice(-3)).toEqual([...errors, ...usages, '[DONE]'])
    }
    expect(await server.process.exited).toBe(0)

    const { inference_key: key, data } = server
    server = await startServer({ data, config: buildRoutesConfig({}) })
    for (const outcome of outcomes) {
      const cost = parseStream(outcome.body).usages[0]?.usage?.cost ?? 0
      expect(cost).toBeGreaterThan(0)
      const record = {
        finish_reason: 'error',
        cancelled: false,
        usage_source: 'estimated',
        total_cost: cost,
        error_type: 'unavailable',
      }
      expect(await fetchGeneration(server, readGenerationId(outcome), key)).toMatchObject(record)
    }
  })

  test('answers a pending call with 503', async () => {
    await start('--drain', '1')
    const call = sendChat(server)
    await upstream.hit()
    await terminate()
    const outcome = await call.outcome()
    expect(outcome).toMatchObject({ status: 503, complete: true })
    expect(JSON.parse(outcome.body).error).toMatchObject({
      code: 503,
      message: 'The gateway is shutting down',
    })
    expect(await server.process.exited).toBe(0)
  })

  test('does not wait when everything has finished', async () => {
    await start('--drain', '600')
    const calls = await running(5)
    await terminate()
    upstream.open('end')
    await Promise.all(calls.map(call => call.outcome()))
    expect(await server.process.exited).toBe(0)
  })
})

test('SIGTERM ends a server whose store takes no records, and the next one has them as they were', async () => {
  await start('--drain', '1')
  upstream.open('end')
  const db = openDatabase(server.data)
  db.run('begin immediate')
  const outcome = sendChat(server).outcome()
  await upstream.hit()
  await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
  server.process.kill('SIGTERM')
  expect(await server.process.exited).toBe(1)
  await outcome
  db.run('rollback')
  db.close()

  const { inference_key: key, data } = server
  server = await startServer({ data, config: buildRoutesConfig({}) })
  const { stdout } = await runGateway(['generations', 'list', '--json', '--data', data])
  expect(JSON.parse(stdout).data).toMatchObject([{ total_cost: COST, usage_source: 'exact' }])
  expect((await fetchKeyState(server, key)).usage).toBe(COST)
})

test('O-08 a second SIGTERM ends it at once, and the records before it are whole', async () => {
  await start()
  upstream.open('end')
  const id = readGenerationId(await sendChat(server).outcome())
  upstream.plan([sseHead(), delta('Hel'), delta('lo'), { wait: 'never' }])
  await running(3)
  expect(await readMetric(server, 'gateway_running_calls')).toBe(3)
  await terminate()
  server.process.kill('SIGTERM')
  expect(await server.process.exited).toBe(1)

  const { inference_key: key, data } = server
  server = await startServer({ data, config: buildRoutesConfig({}) })
  expect(await fetchGeneration(server, id, key)).toMatchObject({ finish_reason: 'stop' })
  const { stdout } = await runGateway(['generations', 'list', '--json', '--data', data])
  const cut = (JSON.parse(stdout).data as Generation[]).filter(one => one.id !== id)
  expect(cut.map(one => [one.finish_reason, one.usage_source, one.streamed])).toEqual(
    Array(3).fill(['error', 'estimated', true]),
  )
  const nanos = cut.reduce(
    (sum, one) => sum + Math.round(one.total_cost * 1e9),
    Math.round(COST * 1e9),
  )
  expect(Math.round((await fetchKeyState(server, key)).usage * 1e9)).toBe(nanos)
})
