import { afterAll, beforeAll, expect, test } from 'bun:test'
import OpenAI, { toFile } from 'openai'
import { buildLine } from '../support/batches.ts'
import { type Server, startServer } from '../support/server.ts'

let server: Server
let client: OpenAI

beforeAll(async () => {
  server = await startServer()
  client = new OpenAI({ apiKey: server.inference_key, baseURL: server.base })
})
afterAll(() => server[Symbol.asyncDispose]())

const upload = (lines: string[]) =>
  toFile(Buffer.from(lines.join('\n')), 'in.jsonl').then(file =>
    client.files.create({ file, purpose: 'batch' }),
  )

/** Asks until a batch has ended, as its users do. */
async function waitForEnd(id: string) {
  for (;;) {
    const batch = await client.batches.retrieve(id)
    if (batch.status === 'completed' || batch.status === 'failed') return batch
    await Bun.sleep(20)
  }
}

test('OpenAI’s client makes a batch, reads its results, lists and cancels', async () => {
  const file = await upload([buildLine('one'), buildLine('two', { sandbox: { fail: 400 } })])
  expect(file.purpose).toBe('batch')
  const made = await client.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
    metadata: { job: 'night' },
    output_expires_after: { anchor: 'created_at', seconds: 3_600 },
  })
  expect(made).toMatchObject({ status: 'validating', metadata: { job: 'night' } })
  const ended = await waitForEnd(made.id)
  expect(ended.request_counts).toEqual({ total: 2, completed: 1, failed: 1 })
  const read = async (id: string | undefined) =>
    JSON.parse(await (await client.files.content(String(id))).text())
  const answer = await read(ended.output_file_id)
  expect(answer.response.body.choices[0].message.content).toBe('one')
  expect(await read(ended.error_file_id)).toMatchObject({ custom_id: 'two', error: null })
  const output = await client.files.retrieve(String(ended.output_file_id))
  expect([output.purpose, output.expires_at]).toEqual(['batch_output', output.created_at + 3_600])
  const listed: string[] = []
  for await (const { id } of client.batches.list({ limit: 1 })) listed.push(id)
  expect(listed).toEqual([made.id])
  const late = await client.batches.cancel(made.id).catch(thrown => thrown)
  expect(late).toBeInstanceOf(OpenAI.ConflictError)
})

test('a bad line 90,001 is named when the file is uploaded', async () => {
  const line = buildLine('x', { messages: [{ role: 'user', content: 'Hi' }] })
  const lines = Array.from({ length: 90_000 }, (_, i) => line.replace('"x"', `"${i}"`))
  const refused = await upload([...lines, buildLine('last', {}, { method: 'PUT' })]).catch(
    thrown => thrown,
  )
  expect(refused).toBeInstanceOf(OpenAI.BadRequestError)
  expect(refused.message).toContain('line 90001: method')
})
