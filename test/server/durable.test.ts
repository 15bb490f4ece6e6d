import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chat, type Generation, generationOf, heard, idOf, keyState, routesConfig } from '../support/chat.ts'
import type { Outcome } from '../support/raw-client.ts'
import { gateway, type Server, startServer } from '../support/server.ts'
import { completion, startUpstream, stream } from '../support/upstream.ts'

const ROUNDS = 10
const CLIENTS = 8
/** After how many answers each round is killed. A seed of one's own repeats a run: `SEED=7 bun test durable`. */
const SEED = Number(process.env.SEED ?? 20_261_120)

const data = mkdtempSync(join(tmpdir(), 'gateway-durable-'))
afterAll(() => rmSync(data, { recursive: true, force: true }))

test(`S-01 kill -9 under load loses nothing that was answered and charges nothing twice (seed ${SEED})`, async () => {
  await using upstream = await startUpstream()
  upstream.answer(({ json }) => ((json as { stream?: boolean }).stream ? stream() : completion('Hello')))
  const start = () => startServer({ data, config: routesConfig({ 'acme/small': { local: upstream.url } }) })
  const answered = new Set<string>()
  let server = await start()
  const { inference_key: key } = server
  try {
    for (const enough of killAfter(SEED, ROUNDS)) {
      const ids = await answersUntilKilled(server, key, enough)
      expect(ids.length).toBeGreaterThanOrEqual(enough)
      for (const id of ids) answered.add(id)
      server = await start()
      for (const id of ids) expect(await generationOf(server, id, key)).toMatchObject({ id, finish_reason: 'stop', usageSource: 'exact' })
      await expectBalanced(server, key, answered)
    }
    expect((await server.stop()).code).toBe(0)
    const [id = ''] = answered
    const { stdout, code } = await gateway(['generations', 'get', id, '--json', '--data', data])
    expect(code).toBe(0)
    expect(JSON.parse(stdout).data).toMatchObject({ id, finish_reason: 'stop' })
  } finally {
    if (server.process.exitCode === null) await server.kill()
  }
}, 30_000)

/** Small numbers that look like chance and are the same for the same seed. */
function killAfter(seed: number, count: number): number[] {
  let state = seed
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return 1 + ((state >>> 16) % 50)
  })
}

/** Has clients ask without a pause, kills the server after so many whole answers, and gives the ids of all that came whole. */
async function answersUntilKilled(server: Server, key: string, enough: number): Promise<string[]> {
  const ids: string[] = []
  const client = async (streamed: boolean) => {
    while (server.process.signalCode === null && !server.process.killed) {
      const outcome = await chat(server, { stream: streamed }, { key }).outcome()
      if (!isWhole(outcome)) return
      ids.push(idOf(outcome))
      if (ids.length === enough) server.process.kill('SIGKILL')
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, i) => client(i % 2 === 0)))
  await server.process.exited
  return ids
}

function isWhole({ status, complete, headers, body }: Outcome): boolean {
  if (status !== 200 || !complete) return false
  return headers['content-type']?.startsWith('text/event-stream') ? heard(body).dones === 1 : JSON.parse(body).usage !== undefined
}

/** Expects what the key has used to be the sum of what is on record, to the nano-dollar, and every answer on record once. */
async function expectBalanced(server: Server, key: string, answered: Set<string>) {
  const { stdout } = await gateway(['generations', 'list', '--limit', '1000', '--json', '--data', data])
  const generations: Generation[] = JSON.parse(stdout).data
  expect(generations.length).toBeLessThan(1000)
  const ids = generations.map(one => one.id)
  expect(new Set(ids).size).toBe(ids.length)
  expect([...answered].filter(id => !ids.includes(id))).toEqual([])
  const nanos = generations.reduce((sum, one) => sum + Math.round(one.total_cost * 1e9), 0)
  expect(Math.round((await keyState(server, key)).usage * 1e9)).toBe(nanos)
}
