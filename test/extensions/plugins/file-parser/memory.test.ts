import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import type { Json } from '../../../../src/base/json.ts'
import { type Documents, openDocuments } from '../../../../src/extensions/documents.ts'
import { getPolicy } from '../../../../src/limits/effective.ts'
import { ZDR_GROUPS } from '../../../../src/limits/zdr.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import { createKey } from '../../../../src/resources/keys.ts'
import { buildPageContent, buildPdf } from '../../../support/documents-of-office.ts'
import { askDoor, DOORS, type Door, type DoorCall } from '../../../support/doors.ts'
import { testGateway } from '../../../support/gateway.ts'
import { PEER_KEY } from '../../../support/search-peers.ts'
import {
  completion,
  json,
  startUpstream,
  stream,
  type Upstream,
} from '../../../support/upstream.ts'

/*
 * A document that a conversation sends again is read once, at every door: the APIs have no field for
 * its words but chat's annotations, which few clients send back.
 */

const PAGE = 2_000_000n
const PDF = {
  name: 'harvest.pdf',
  url: `data:application/pdf;base64,${Buffer.from(buildPdf(buildPageContent('37 barrels'))).toString('base64')}`,
}
const WITH_OCR = [{ id: 'file-parser', pdf: { engine: 'mistral-ocr' } }]

let upstream: Upstream
let mistral: Upstream
let gateway: Gateway
let reads: string[]
let key: { hash: string; secret: string }

// One reader for all: to start its Worker takes time. Deadlines are not what is tested.
let documents: Documents
beforeAll(() => {
  documents = openDocuments({ timeoutMs: 120_000 })
})
afterAll(() => documents.close())

/** Reads documents as ever, and notes the name of each. */
const watch = (): Documents => ({
  read(bytes, name) {
    reads.push(name)
    return documents.read(bytes, name)
  },
  close: () => undefined,
})

const makeKey = async () => {
  const made = await createKey(gateway, getOperator(gateway), { name: 'k', limit: 1 })
  return { hash: made.data.hash, secret: made.key }
}

async function open(plugins: Json = {}): Promise<void> {
  gateway = await testGateway({
    documents: watch(),
    config: {
      providers: {
        local: {
          ...{ protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' },
        },
      },
      models: [
        {
          id: 'acme/words',
          context_length: 100_000,
          endpoints: [
            {
              ...{ provider: 'local', model: 'm', data_policy: { retention_days: 0 } },
              usd_per_million_tokens: { prompt: 1, completion: 2 },
            },
          ],
          input_modalities: ['text'],
        },
      ],
      plugins: {
        mistral_ocr: {
          api_key: PEER_KEY,
          base_url: mistral.url.replace(/\/v1$/, ''),
          usd_per_page: Number(PAGE) / 1e9,
        },
        ...plugins,
      },
    },
  })
  key = await makeKey()
}

beforeEach(async () => {
  reads = []
  upstream = await startUpstream()
  mistral = await startUpstream()
  upstream.answer(({ json: asked }) => ((asked as Json).stream ? stream(['Hi']) : completion('Hi')))
  mistral.answer(() =>
    json({
      pages: [{ index: 0, markdown: '# Invoice' }],
      usage_info: { pages_processed: 1, doc_size_bytes: 1 },
    }),
  )
})
afterEach(() => Promise.all([gateway.close(), upstream.close(), mistral.close()]))

async function ask(door: Door, call: Partial<DoorCall> = {}) {
  const answer = await askDoor(gateway, key.secret, door, {
    ...{ model: 'acme/words', stream: false, file: PDF },
    ...call,
  })
  expect(answer.status).toBe(200)
  return answer.pipeline[0]?.data?.files
}

const sentText = () => upstream.hits.at(-1)?.body ?? ''

describe.each(DOORS)('a document that is sent again at %s', door => {
  test.each([false, true])('is read once, streamed %p', async stream => {
    await open()
    expect(await ask(door, { stream })).toEqual([
      { name: PDF.name, type: 'pdf', characters: expect.any(Number) },
    ])
    const again = await ask(door, { stream, file: { ...PDF, name: 'again.pdf' } })
    expect(again).toMatchObject([{ name: 'again.pdf', type: 'pdf', reused: true }])
    expect(sentText()).toContain('<file name=\\"again.pdf\\">\\n37 barrels')
    expect(reads).toEqual([PDF.name])
  })

  test('is recognized once by a service, and paid once', async () => {
    await open()
    await ask(door, { plugins: WITH_OCR })
    expect(await ask(door, { plugins: WITH_OCR })).toMatchObject([{ reused: true }])
    expect([mistral.hits.length, sentText()]).toEqual([1, expect.stringContaining('# Invoice')])
    await gateway.recorder.flush()
    const { ledger, store } = gateway
    const generations = await store.generations.list({ key_hash: key.hash }, 5)
    const steps = generations.flatMap(one => one.steps.filter(({ type }) => type === 'tool'))
    expect(steps).toMatchObject([{ name: 'mistral-ocr', cost: PAGE }])
    const total = generations.reduce((sum, { total_cost }) => sum + (total_cost ?? 0n), 0n)
    expect(ledger.getSpent(`key ${key.hash}`, null, false)).toBe(total)
  })
})

test('what one door has had read, another has not read again', async () => {
  await open()
  for (const door of DOORS) await ask(door)
  expect(reads).toHaveLength(1)
})

test('the words of a service and those of the file are not confused', async () => {
  await open()
  await ask('chat')
  await ask('chat', { plugins: WITH_OCR })
  expect(sentText()).toContain('# Invoice')
  await ask('chat')
  expect(sentText()).toContain('37 barrels')
  expect([reads.length, mistral.hits.length]).toEqual([1, 1])
})

test('another key has it read again', async () => {
  await open()
  await ask('chat')
  key = await makeKey()
  expect(await ask('chat')).not.toMatchObject([{ reused: true }])
  expect(reads).toHaveLength(2)
})

test('nothing is kept of a call that wants nothing retained, nor with a bound of zero', async () => {
  await open()
  const zdr = { more: { provider: { zdr: true } } }
  for (const call of [zdr, zdr, {}]) await ask('messages', call)
  expect(reads).toHaveLength(3)
  expect(gateway.traffic.readDocuments.size).toBeGreaterThan(0)
  // What was kept is not used for such a call either.
  await ask('messages', zdr)
  expect(reads).toHaveLength(4)
  const policy = getPolicy(gateway, { ...getOperator(gateway), key_hash: key.hash })
  const others = ZDR_GROUPS.filter(({ author }) => author === null)
  gateway.memory.policies.set(key.hash, { ...policy, zdr: others })
  await ask('messages')
  expect(reads).toHaveLength(5)
  await gateway.close()
  reads = []
  await open({ read_documents_mib: 0 })
  for (const door of DOORS) await ask(door)
  expect([reads.length, gateway.traffic.readDocuments.size]).toEqual([3, 0])
})

test('a document that cannot be read is not kept', async () => {
  await open()
  const url = `data:application/pdf;base64,${Buffer.from('%PDF-1.7 nothing').toString('base64')}`
  const file = { name: 'broken.pdf', url }
  for (let i = 0; i < 2; i++) {
    const call = { model: 'acme/words', stream: false, file }
    const { status, text } = await askDoor(gateway, key.secret, 'responses', call)
    expect([status, text]).toEqual([400, expect.stringContaining('broken.pdf')])
  }
  expect([reads.length, gateway.traffic.readDocuments.size]).toEqual([2, 0])
})
