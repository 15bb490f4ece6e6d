import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildLine } from '../support/batches.ts'
import { queryDatabase, readBooks } from '../support/books.ts'
import {
  fetchGeneration,
  isCompleteAnswer,
  readGenerationId,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { buildFileForm } from '../support/operations.ts'
import { createSeededIntegers, SEED } from '../support/random.ts'
import { buildLocalConfig, type Server, startServer } from '../support/server.ts'
import { callingAll } from '../support/server-tools/killing.ts'
import { completion, type Hit, type Script, startUpstream, stream } from '../support/upstream.ts'

const isLong = process.env.GATEWAY_TEST_LONG !== undefined
const ROUNDS = isLong ? 60 : 4
const LINES = 12

const data = mkdtempSync(join(tmpdir(), 'gateway-killed-mixed-'))
afterAll(() => rmSync(data, { recursive: true, force: true }))

/** What clients were told, by the id of the call, file or batch. */
class Acknowledged {
  readonly calls: string[] = []
  readonly files: string[] = []
  readonly batches: string[] = []

  get size(): number {
    return this.calls.length + this.files.length + this.batches.length
  }
}

/** Work that a client does again and again until its server is killed. */
type Work = (server: Server, key: string, known: Acknowledged) => Promise<void>

const ask =
  (body: object): Work =>
  async (server, key, { calls }) => {
    const outcome = await sendChat(server, body, { key }).outcome()
    if (!isCompleteAnswer(outcome)) throw new Error('cut')
    calls.push(readGenerationId(outcome))
  }

async function upload(server: Server, key: string, body: FormData): Promise<string> {
  const response = await server.fetch('/files', { key, method: 'POST', body })
  return ((await response.json()) as { id: string }).id
}

const store: Work = async (server, key, { files }) =>
  void files.push(await upload(server, key, buildFileForm()))

const batch: Work = async (server, key, { batches }) => {
  const lines = Array.from({ length: LINES }, (_, i) =>
    buildLine(`line-${i}`, { model: 'acme/small' }),
  )
  const form = buildFileForm(lines.join('\n'), 'in.jsonl')
  form.set('purpose', 'batch')
  const input_file_id = await upload(server, key, form)
  const json = { endpoint: '/v1/chat/completions', input_file_id }
  const made = await server.fetch('/batches', { key, json })
  batches.push(((await made.json()) as { id: string }).id)
  await Bun.sleep(100)
}

const WORKS: Work[] = [
  ...[ask({}), ask({ stream: true }), ask({}), ask({ stream: true })],
  ...[ask({ stream: true, max_tokens: 50, tools: [{ type: 'gateway:datetime' }] }), store, batch],
]

const calling = callingAll({ name: 'datetime', arguments: '{}' })

function answer({ json }: Hit): Script {
  const asked = json as { stream?: boolean; tools?: unknown[]; messages: { role: string }[] }
  if (asked.tools?.length && asked.messages.at(-1)?.role !== 'tool') return calling
  return asked.stream ? stream() : completion('Hello')
}

/** Has clients work without a pause, and kills the server after so many acknowledgements. */
async function workUntilKilled(server: Server, key: string, known: Acknowledged, most: number) {
  const client = async (work: Work) => {
    while (server.process.signalCode === null && !server.process.killed) {
      try {
        await work(server, key, known)
      } catch {
        return
      }
      if (known.size >= most) server.process.kill('SIGKILL')
    }
  }
  await Promise.all(WORKS.map(client))
  await server.process.exited
}

/** Lists those that are not there any more. */
async function findLost(server: Server, key: string, { calls, files, batches }: Acknowledged) {
  const lost: string[] = []
  for (const id of calls) {
    const found = await fetchGeneration(server, id, key).catch(() => null)
    if (found?.finish_reason !== 'stop' || found.usage_source !== 'exact') lost.push(id)
  }
  for (const id of files)
    if ((await server.fetch(`/files/${id}`, { key })).status !== 200) lost.push(id)
  for (const id of batches)
    if ((await server.fetch(`/batches/${id}`, { key })).status !== 200) lost.push(id)
  return lost
}

async function hasEnded(server: Server, key: string, id: string): Promise<boolean> {
  const shown = await (await server.fetch(`/batches/${id}`, { key })).json()
  return (shown as { status: string }).status === 'completed'
}

/** Reads what was charged twice, and which lines were paid and answered. */
const readCharges = () =>
  queryDatabase(data, db => {
    const count = (sql: string) => (db.query(sql).get() as { count: number }).count
    return {
      steps: count(`select count(*) as count from
        (select 1 from ledger group by id, step having count(*) > 1)`),
      lines: count(`select count(*) as count from (select 1 from generations
        where batch_id is not null and upstream_inference_cost > 0
        group by request_id having count(*) > 1)`),
      paid: count(`select count(*) as count from generations where batch_id is not null
        and usageSource = 'exact' and upstream_inference_cost > 0`),
      answered: count('select sum(completed) as count from batches'),
      interrupted: count('select sum(failed) as count from batches'),
      total: count('select sum(total) as count from batches'),
    }
  })

test(`S-01 kill -9 of mixed work loses nothing and charges nothing twice (seed ${SEED})`, async () => {
  await using upstream = await startUpstream()
  upstream.answer(answer)
  const start = () => startServer({ data, config: buildLocalConfig(upstream.url) })
  const random = createSeededIntegers(SEED)
  const all = new Acknowledged()
  const lost: string[] = []
  let server = await start()
  const { inference_key: key } = server
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const known = new Acknowledged()
      await workUntilKilled(server, key, known, 1 + random(60))
      server = await start()
      lost.push(...(await findLost(server, key, known)))
      for (const kind of ['calls', 'files', 'batches'] as const) all[kind].push(...known[kind])
    }
    for (const id of all.batches) await waitUntil(() => hasEnded(server, key, id), 120)
    expect((await server.stop()).code).toBe(0)
  } finally {
    if (server.process.exitCode === null) await server.kill()
  }
  const charges = readCharges()
  const twice = charges.steps + charges.lines
  if (isLong) {
    const { answered, interrupted, total, paid } = charges
    process.stdout.write(
      `${ROUNDS} kills of mixed work: ${all.size} acknowledged (${all.calls.length} calls, ` +
        `${all.files.length} files, ${all.batches.length} batches), ${lost.length} lost, ` +
        `${twice} charged twice; of ${total} lines ${answered} answered, ${paid} paid for, ` +
        `${interrupted} interrupted at their provider\n`,
    )
  }
  expect(lost).toEqual([])
  expect(twice).toBe(0)
  expect(charges.answered).toBe(charges.paid)
  const { ledger, counted, recorded, held } = readBooks(data, key)
  expect([counted, recorded, held]).toEqual([ledger, ledger, 0])
}, 900_000)
