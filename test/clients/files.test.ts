import { afterAll, beforeAll, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { OpenRouter } from '@openrouter/sdk'
import OpenAI from 'openai'
import { openGateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { storeFile } from '../../src/resources/files.ts'
import { openFilesApis } from '../support/files-api.ts'
import { openStage, type Stage } from '../support/stage.ts'
import { PNG } from '../support/typed-files.ts'
import { hasWirecheck } from '../support/wirecheck.ts'

let stage: Stage
let written: string

const upstream = openFilesApis()

beforeAll(async () => {
  stage = await openStage({
    openai: { base_url: `${upstream.url}/openai`, api_key: 'mock' },
    anthropic: { base_url: `${upstream.url}/anthropic`, api_key: 'mock' },
  })
  for (const provider of ['openai', 'anthropic'])
    await fetch(`${stage.base}/byok`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${stage.server.management_key}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ provider, key: `sk-${provider}-own-key` }),
    })
  written = await writeFile(stage.server.data)
})
afterAll(() => {
  upstream.close()
  return stage.close()
})

/** Stores a file as the gateway itself does, so that it can be downloaded. */
async function writeFile(data: string): Promise<string> {
  const gateway = await openGateway({ data })
  async function* content() {
    yield Buffer.from('a,b\n1,2\n')
  }
  const input = { filename: 'written.csv', downloadable: true }
  const file = await storeFile(gateway, getOperator(gateway), input, content())
  await gateway.close()
  return file.id
}

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

test('OpenAI’s client uploads, reads, lists, downloads and deletes files', async () => {
  const { files } = new OpenAI({ apiKey: stage.server.inference_key, baseURL: stage.base })
  const made = await files.create({ file: new File([PNG], 'dot.png'), purpose: 'vision' })
  expect(made).toMatchObject({ object: 'file', purpose: 'vision', bytes: PNG.length })
  expect(await files.retrieve(made.id)).toEqual(made)
  const second = await files.create({ file: new File(['hi'], 'b.txt'), purpose: 'user_data' })
  const seen: string[] = []
  for await (const file of files.list({ limit: 1, order: 'asc' })) seen.push(file.id)
  expect(seen).toEqual([written, made.id, second.id])
  expect(await (await files.content(written)).text()).toBe('a,b\n1,2\n')
  expect(await failureOf(files.content(made.id))).toMatchObject({ status: 400 })
  for (const { id } of [made, second])
    expect(await files.delete(id)).toMatchObject({ id, object: 'file', deleted: true })
  expect(await failureOf(files.retrieve(made.id))).toBeInstanceOf(OpenAI.NotFoundError)
  const empty = files.create({ file: new File([], 'empty'), purpose: 'vision' })
  expect(await failureOf(empty)).toBeInstanceOf(OpenAI.BadRequestError)
})

test('Anthropic’s client does', async () => {
  const client = new Anthropic({
    apiKey: stage.server.inference_key,
    baseURL: stage.base.replace(/\/v1$/, ''),
  })
  const { files } = client.beta
  const made = await files.upload({ file: new File([PNG], 'dot.png', { type: 'text/html' }) })
  expect(made).toMatchObject({ type: 'file', mime_type: 'image/png', downloadable: false })
  expect(await files.retrieveMetadata(made.id)).toEqual(made)
  const seen: string[] = []
  for await (const file of files.list({ limit: 1 })) seen.push(file.id)
  expect(seen).toEqual([made.id, written])
  expect(await (await files.download(written)).text()).toBe('a,b\n1,2\n')
  expect(await files.delete(made.id)).toMatchObject({ id: made.id, type: 'file_deleted' })
  expect(await failureOf(files.retrieveMetadata(made.id))).toMatchObject({ status: 404 })
})

test('OpenRouter’s client does', async () => {
  const { files } = new OpenRouter({
    apiKey: stage.server.inference_key,
    serverURL: stage.base,
    retryConfig: { strategy: 'none' },
  })
  const made = await files.upload({
    requestBody: { file: { fileName: 'dot.png', content: PNG } },
  })
  if (!('mimeType' in made)) throw new Error(`Another shape: ${JSON.stringify(made)}`)
  expect(made).toMatchObject({ filename: 'dot.png', mimeType: 'image/png', sizeBytes: PNG.length })
  const page = await files.list({ limit: 1 })
  expect(JSON.stringify(page)).toContain(made.id)
  expect(await files.retrieve({ fileId: made.id })).toEqual(made)
  const text = await new Response((await files.download({ fileId: written })) as never).text()
  expect(text).toBe('a,b\n1,2\n')
  expect(await files.delete({ fileId: made.id })).toMatchObject({ id: made.id })
})

test('OpenAI’s client reaches the files that its workspace has at OpenAI', async () => {
  const { files } = new OpenAI({
    ...{ apiKey: stage.server.inference_key, baseURL: stage.base },
    defaultQuery: { provider: 'openai' },
  })
  const made = await files.create({ file: new File(['{}\n{}'], 'a.jsonl'), purpose: 'batch' })
  expect(made).toMatchObject({ object: 'file', purpose: 'batch', bytes: 5, filename: 'a.jsonl' })
  expect(upstream.kept.at(-1)).toMatchObject({ id: made.id, purpose: 'batch' })
  expect(await files.retrieve(made.id)).toEqual(made)
  const second = await files.create({ file: new File(['hi'], 'b.txt'), purpose: 'user_data' })
  const seen: string[] = []
  for await (const file of files.list({ limit: 1 })) seen.push(file.id)
  expect(seen).toEqual([made.id, second.id])
  expect(await (await files.content(made.id)).text()).toBe('{}\n{}')
  for (const { id } of [made, second])
    expect(await files.delete(id)).toMatchObject({ id, deleted: true })
  expect(await failureOf(files.retrieve(made.id))).toBeInstanceOf(OpenAI.NotFoundError)
})

test('Anthropic’s client reaches those at Anthropic', async () => {
  const client = new Anthropic({
    ...{ apiKey: stage.server.inference_key, baseURL: stage.base.replace(/\/v1$/, '') },
    defaultQuery: { provider: 'anthropic' },
  })
  const { files } = client.beta
  const made = await files.upload({ file: new File([PNG], 'dot.png') })
  expect(made).toMatchObject({ type: 'file', mime_type: 'image/png', downloadable: true })
  expect(await files.retrieveMetadata(made.id)).toEqual(made)
  const seen: string[] = []
  for await (const file of files.list({ limit: 1 })) seen.push(file.id)
  expect(seen).toEqual([made.id])
  expect(await (await files.download(made.id)).bytes()).toEqual(new Uint8Array(PNG))
  expect(await files.delete(made.id)).toMatchObject({ id: made.id, type: 'file_deleted' })
  expect(await failureOf(files.retrieveMetadata(made.id))).toMatchObject({ status: 404 })
})

test('OpenRouter’s client names the provider', async () => {
  const { files } = new OpenRouter({
    ...{ apiKey: stage.server.inference_key, serverURL: stage.base },
    retryConfig: { strategy: 'none' },
  })
  const made = await files.upload({
    provider: 'openai',
    requestBody: { file: { fileName: 'dot.png', content: PNG } },
  })
  if (!('id' in made)) throw new Error(`Another shape: ${JSON.stringify(made)}`)
  expect(made).toMatchObject({ filename: 'dot.png', sizeBytes: PNG.length })
  expect(JSON.stringify(await files.list({ provider: 'openai' }))).toContain(made.id)
  await files.delete({ fileId: made.id, provider: 'openai' })
})

test.if(hasWirecheck)('every answer has the public form', async () => {
  const { seen, violations } = await stage.report()
  expect(violations).toEqual([])
  expect(Object.keys(seen)).toEqual(
    expect.arrayContaining(
      ['uploadFile', 'listFiles', 'getFileMetadata', 'deleteFile', 'downloadFileContent'].map(
        operation => `${operation} 200`,
      ),
    ),
  )
})
