import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  buildRoutesConfig,
  fetchGeneration,
  fetchKeyState,
  type Generation,
  isCompleteAnswer,
  readGenerationId,
  sendChat,
} from '../support/chat.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'
import { runGateway, type Server, startServer } from '../support/server.ts'
import { completion, startUpstream, stream } from '../support/upstream.ts'

const ROUNDS = LONG ? 10 : 5
const CLIENTS = 8

const data = mkdtempSync(join(tmpdir(), 'gateway-durable-'))
afterAll(() => rmSync(data, { recursive: true, force: true }))

test(`S-01 kill -9 under load loses no answer and charges none twice (seed ${SEED})`, async () => {
  await using upstream = await startUpstream()
  upstream.answer(({ json }) =>
    (json as { stream?: boolean }).stream ? stream() : completion('Hello'),
  )
  const start = () =>
    startServer({ data, config: buildRoutesConfig({ 'acme/small': { local: upstream.url } }) })
  const answered = new Set<string>()
  let server = await start()
  const { inference_key: key } = server
  try {
    for (const enough of killAfter(SEED, ROUNDS)) {
      const ids = await answersUntilKilled(server, key, enough)
      expect(ids.length).toBeGreaterThanOrEqual(enough)
      for (const id of ids) answered.add(id)
      server = await start()
      for (const id of ids)
        expect(await fetchGeneration(server, id, key)).toMatchObject({
          id,
          finish_reason: 'stop',
          usage_source: 'exact',
        })
      await expectBalanced(server, key, answered)
    }
    expect((await server.stop()).code).toBe(0)
    const [id = ''] = answered
    const { stdout, code } = await runGateway(['generations', 'get', id, '--json', '--data', data])
    expect(code).toBe(0)
    expect(JSON.parse(stdout).data).toMatchObject({ id, finish_reason: 'stop' })
  } finally {
    if (server.process.exitCode === null) await server.kill()
  }
})

/** Returns small pseudo-random numbers, the same for the same seed. */
function killAfter(seed: number, count: number): number[] {
  const random = createSeededIntegers(seed)
  return Array.from({ length: count }, () => 1 + random(50))
}

/**
 * Has clients call without a pause, kills the server after so many whole answers, and returns the
 * ids of all that arrived whole.
 */
async function answersUntilKilled(server: Server, key: string, enough: number): Promise<string[]> {
  const ids: string[] = []
  const client = async (streamed: boolean) => {
    while (server.process.signalCode === null && !server.process.killed) {
      const outcome = await sendChat(server, { stream: streamed }, { key }).outcome()
      if (!isCompleteAnswer(outcome)) return
      ids.push(readGenerationId(outcome))
      if (ids.length === enough) server.process.kill('SIGKILL')
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, i) => client(i % 2 === 0)))
  await server.process.exited
  return ids
}

/**
 * Expects the key's usage to be the sum of what is on record, to the nano-dollar, and every answer
 * on record once.
 */
async function expectBalanced(server: Server, key: string, answered: Set<string>) {
  const { stdout } = await runGateway([
    'generations',
    'list',
    '--limit',
    '1000',
    '--json',
    '--data',
    data,
  ])
  const generations: Generation[] = JSON.parse(stdout).data
  expect(generations.length).toBeLessThan(1000)
  const ids = generations.map(one => one.id)
  expect(new Set(ids).size).toBe(ids.length)
  expect([...answered].filter(id => !ids.includes(id))).toEqual([])
  const nanos = generations.reduce((sum, one) => sum + Math.round(one.total_cost * 1e9), 0)
  expect(Math.round((await fetchKeyState(server, key)).usage * 1e9)).toBe(nanos)
}
