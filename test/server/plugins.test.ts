import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { sendChat } from '../support/chat.ts'
import { buildLocalConfig, type LocalServer, startLocalServer } from '../support/server.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

/* What runs in Workers is here too, as they are programs of their own in the compiled binary. */

let upstream: Upstream
let server: LocalServer

beforeAll(async () => {
  upstream = await startUpstream()
  const config = buildLocalConfig(upstream.url) as { models: object[] }
  server = await startLocalServer({
    ...config,
    models: config.models.map(model => ({ ...model, input_modalities: ['text'] })),
  })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})
beforeEach(() => {
  upstream.hits.length = 0
})

const readFile = async (name: string) => {
  const path = join(import.meta.dir, '../extensions/documents/files', name)
  const bytes = Buffer.from(await Bun.file(path).arrayBuffer())
  return `data:application/octet-stream;base64,${bytes.toString('base64')}`
}

describe('a server', () => {
  test.each([
    ['chromium.pdf', 'The orchard gave 4,812 kg'],
    ['docx.docx', 'Boskoop'],
    ['write-excel-file.xlsx', '1234.5'],
    ['pptxgenjs.pptx', 'The cellar holds 37 barrels'],
  ])('reads %s for a model that does not', async (filename, words) => {
    upstream.answer(() => completion())
    const file = { type: 'file', file: { filename, file_data: await readFile(filename) } }
    const body = { messages: [{ role: 'user', content: [file] }] }
    expect(await sendChat(server, body).outcome()).toMatchObject({ status: 200 })
    expect(upstream.hits[0]?.body).toContain(words)
  })

  test('mends an answer that should be JSON', async () => {
    upstream.answer(() => completion('```json\n{"a": 1,}\n```'))
    const { status, body } = await sendChat(server, {
      response_format: { type: 'json_object' },
      plugins: [{ id: 'response-healing' }],
    }).outcome()
    expect([status, JSON.parse(body).choices[0].message.content]).toEqual([200, '{"a": 1}'])
  })

  test('takes the older name of context-compression', async () => {
    upstream.answer(() => completion())
    for (const transforms of [['middle-out'], []])
      expect((await sendChat(server, { transforms }).outcome()).status).toBe(200)
    const refused = await sendChat(server, { transforms: ['inside-out'] }).outcome()
    expect([refused.status, refused.body]).toEqual([
      400,
      expect.stringContaining('transforms: expected a list of middle-out, or an empty one'),
    ])
  })
})
