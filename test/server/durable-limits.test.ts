import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  isCompleteAnswer,
  readGenerationId,
  readUsage,
  sendChat,
} from '../support/chat.ts'
import { openDatabase } from '../support/database.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'
import { runGateway, type Server, startServer } from '../support/server.ts'
import {
  completion,
  delta,
  done,
  finish,
  type Script,
  sseHead,
  startUpstream,
  usage,
} from '../support/upstream.ts'

const KILLS = LONG ? 200 : 6
const PRICED = { prompt: 1, completion: 1 }
const BOUND = 100_000

test(`A-06 a limit of a dollar survives ${KILLS} random kills (seed ${SEED})`, async () => {
  await using upstream = await startUpstream()
  const random = createSeededIntegers(SEED)
  // In every other round some calls are not answered at all: the server is killed with them,
  // however fast it or the machine is.
  let [keepsSome, asked] = [false, 0]
  upstream.answer(({ json }) =>
    keepsSome && ++asked % 3 === 0
      ? [{ wait: 'for good' }]
      : answerOf(json as { stream?: boolean }, BOUND / 2 + random(BOUND / 2)),
  )
  const config = {
    limits: { strict: false, wait_seconds: 0 },
    providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
    models: [
      {
        id: 'acme/small',
        context_length: 1_000_000,
        endpoints: [{ provider: 'local', model: 'm', usd_per_million_tokens: PRICED }],
      },
    ],
  }
  const directory = mkdtempSync(join(tmpdir(), 'gateway-killed-'))
  let server = await startServer({ data: directory, config })
  const { management_key } = server
  try {
    for (let round = 1; round <= KILLS; round++) {
      const key = await createLimitedKey(server, 1, management_key)
      // In turns at a random moment, and when there is something to lose.
      keepsSome = round % 2 === 1
      const answered = await (round % 2 === 0
        ? answersUntil(server, key, 0, random(120))
        : answersUntil(server, key, 1 + random(3), random(5)))
      server = await startServer({ data: directory, config, env: {} })
      await expectWithinLimit(server, management_key, key, answered)
      if (round % 20 === 0) await expectSound(directory)
    }
    expect((await server.stop()).code).toBe(0)
    await expectSound(directory)
    expect((await runGateway(['doctor', '--data', directory])).stdout).toContain('no call runs')
    // Both must occur, or the rounds prove nothing: calls that were answered, and calls of which
    // only the hold was left.
    expect(countIn(directory, "ledger where source = 'exact'")).toBeGreaterThan(KILLS / 4)
    expect(countIn(directory, "ledger where source = 'estimated'")).toBeGreaterThan(KILLS / 4)
  } finally {
    if (server.process.exitCode === null) await server.kill()
    rmSync(directory, { recursive: true, force: true })
  }
}, 300_000)

const answerOf = ({ stream: streamed }: { stream?: boolean }, tokens: number): Script =>
  streamed
    ? [
        sseHead(),
        delta('Hel'),
        { ms: 3 },
        delta('lo'),
        finish('stop', usage(1, tokens)),
        done(),
        '0\r\n\r\n',
      ]
    : [{ ms: 2 }, completion('Hello', { usage: usage(1, tokens) })]

/**
 * Has thirty clients call at once, kills the server so many milliseconds after so many whole
 * answers, and returns the cost by id of those that arrived whole.
 */
async function answersUntil(
  server: Server,
  key: string,
  enough: number,
  milliseconds: number,
): Promise<Map<string, number>> {
  const reached = Promise.withResolvers<void>()
  let count = 0
  const ask = async (streamed: boolean) => {
    const outcome = await sendChat(
      server,
      { stream: streamed, max_tokens: BOUND },
      { key },
    ).outcome()
    if (isCompleteAnswer(outcome) && ++count === enough) reached.resolve()
    return outcome
  }
  const asked = Promise.all(Array.from({ length: 30 }, (_, i) => ask(i % 2 === 0)))
  if (enough > 0) await Promise.race([reached.promise, asked])
  const killed = Bun.sleep(milliseconds).then(() => server.kill())
  const whole = (await asked).filter(isCompleteAnswer)
  await killed
  return new Map(
    whole.map(outcome => [readGenerationId(outcome), nanosOf(readUsage(outcome)?.cost ?? 0)]),
  )
}

const nanosOf = (usd: number) => Math.round(usd * 1e9)

async function expectWithinLimit(
  server: Server,
  management: string,
  key: string,
  answered: Map<string, number>,
): Promise<void> {
  const { usage: spent, limit_remaining } = await fetchKeyState(server, key)
  expect(spent).toBeLessThanOrEqual(1)
  // Nothing is held any more: the rest of the limit is what was not spent.
  expect(nanosOf(limit_remaining ?? Number.NaN)).toBe(1e9 - nanosOf(spent))
  expect(nanosOf(spent)).toBeGreaterThanOrEqual(
    [...answered.values()].reduce((sum, nanos) => sum + nanos, 0),
  )
  for (const [id, nanos] of answered) {
    const { total_cost, finish_reason } = await fetchGeneration(server, id, key)
    expect([finish_reason, nanosOf(total_cost)]).toEqual(['stop', nanos])
  }
  expect(
    (await server.fetch(`/keys/${hashOf(key)}`, { key: management, method: 'DELETE' })).status,
  ).toBe(200)
}

async function expectSound(directory: string): Promise<void> {
  const { code, stdout } = await runGateway(['doctor', '--data', directory])
  expect([code, stdout]).toEqual([0, expect.not.stringContaining('WRONG')])
}

function countIn(directory: string, rows: string): number {
  const db = openDatabase(directory, { readonly: true })
  const { count } = db.query(`select count(*) as count from ${rows}`).get() as { count: number }
  db.close()
  return count
}

const hashOf = (key: string) => Bun.CryptoHasher.hash('sha256', key, 'hex')
