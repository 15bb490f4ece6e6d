import type { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../../src/app/gateway.ts'
import { isObject } from '../../../src/base/json.ts'
import { openSeal, type Seal } from '../../../src/base/seal.ts'
import { sealOutcome } from '../../../src/extensions/batches/job.ts'
import { renderDetails } from '../../../src/extensions/videos/details.ts'
import { createAlert } from '../../../src/observability/alerts.ts'
import { createDestination } from '../../../src/observability/destinations.ts'
import { sealTranscript } from '../../../src/observability/transcripts.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createByokKey } from '../../../src/resources/byok.ts'
import { beginChange, endChange } from '../../../src/resources/idempotency.ts'
import { createPreset } from '../../../src/resources/presets.ts'
import { keepResponse } from '../../../src/resources/responses.ts'
import { buildBatch } from '../../suites/store/batches.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { runCommand } from '../../support/commands.ts'
import { openDatabase } from '../../support/database.ts'
import { testGateway } from '../../support/gateway.ts'
import { buildGeneration } from '../../support/generation.ts'
import { buildVideoJob } from '../../support/video-job.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-replaced-secret-'))
afterAll(() => rmSync(data, { recursive: true, force: true }))

const createNonce = () => crypto.getRandomValues(new Uint8Array(12))

/** Stores one of everything that the secret encrypts. */
async function storeSecrets(gateway: Gateway): Promise<void> {
  const operator = getOperator(gateway)
  const { workspace_id } = operator
  await createByokKey(gateway, operator, { provider: 'openai', key: 'sk-of-a-provider-0123456789' })
  const system_prompt = `Send ${'sk-proj-'}in-the-prompt-Ab3dEf6hIj9kLmN0`
  await createPreset(gateway, operator, 'careful', { system_prompt, config: {} })
  const config = { url: 'https://receiver.example/traces' }
  await createDestination(gateway, operator, { type: 'webhook', name: 'hook', config })
  await createAlert(gateway, operator, {
    ...{ name: 'near', cause: 'limit_near' },
    to: { type: 'slack', url: 'https://hooks.slack.com/services/a' },
  })
  await gateway.store.mcpLogins.save(
    { label: 'own', sealed: seal(gateway, '{"access_token":"a"}', 'own'), updated_at: '' },
    buildAuditEntry(),
  )
  await beginChange(gateway, { name: 'change', fingerprint: 'x' })
  await endChange(gateway, 'change', { status: 200, headers: [], body: 'changed' })
  await gateway.store.batches.insert(buildBatch(1, { workspace_id }), buildAuditEntry())
  const { id: batch } = buildBatch(1)
  const result = sealOutcome(gateway, batch, 7, { isError: false, text: 'line seven' })
  await gateway.store.batches.addResult(result)
  await keepResponse(gateway, { ...operator, key_hash: 'a' }, { input: [], response: { id: 'r' } })
  await storeCall(gateway)
  await storeVideo(gateway)
}

const seal = (gateway: Gateway, text: string, id: string) =>
  gateway.secrets.destinationSeal().seal(text, id, createNonce())

/** A call whose content is kept, and of which two destinations are to be told. */
async function storeCall(gateway: Gateway): Promise<void> {
  const generation = buildGeneration({ id: 'gen-1' })
  const transcript = buildTranscript(gateway, 'gen-1')
  const outbox = [{ topic: 'trace', payload: seal(gateway, '{"id":"gen-1"}', 'gen-1') }]
  await gateway.store.generations.record([{ generation, charge: null, transcript, outbox }])
}

const buildTranscript = (gateway: Gateway, id: string) => {
  const transcript = sealTranscript(gateway, buildGeneration({ id }), {
    input: { prompt: 'asked' },
    output: { completion: 'answered', reasoning: null },
  })
  if (!transcript) throw new Error('It is too large')
  return transcript
}

async function storeVideo(gateway: Gateway): Promise<void> {
  const job = buildVideoJob()
  const id = job.generation_id
  const details = renderDetails({
    ...{ params: {} as never, seconds: 4, prices: null, generation: buildGeneration({ id }) },
    transcript: buildTranscript(gateway, id),
    outbox: [
      { topic: 'trace', payload: seal(gateway, '{"id":"video"}', id), hasContent: true },
      { topic: 'trace', payload: '{"id":"plain"}' },
    ],
  })
  const callback_url = seal(gateway, 'https://receiver.example/done', job.id)
  await gateway.store.videos.insert({ ...job, details, callback_url, callback: 'waiting' })
  // Whatever a damaged row has, the others are encrypted again.
  await gateway.store.videos.insert({
    ...job,
    id: 'damaged',
    generation_id: 'gen-d',
    details: 'no JSON',
  })
}

/** The seals of a secret, by what they are for. */
const openSeals = (secret: string): Seal[] =>
  ['byok', 'presets', 'content', 'destinations'].map(use => openSeal(Buffer.from(secret), use))

/** Lists what these seals open in a database, each with its column. */
function listSealed(db: Database, seals: Seal[]): string[] {
  const tables = db
    .query(`select name from sqlite_schema where type = 'table'`)
    .values() as string[][]
  return tables.flatMap(([table = '']) =>
    (db.query(`select * from "${table}"`).all() as Record<string, unknown>[]).flatMap(row =>
      Object.entries(row).flatMap(([column, value]) =>
        listTexts(value).flatMap(text =>
          openAny(seals, text, listContexts(row)).map(opened => `${table}.${column}: ${opened}`),
        ),
      ),
    ),
  )
}

/** Lists the texts of a value, also inside of JSON. */
function listTexts(value: unknown): string[] {
  if (typeof value === 'string' && /^[{[]/.test(value)) return listTexts(JSON.parse(value))
  if (typeof value === 'string') return /^[\w-]{38,}$/.test(value) ? [value] : []
  if (Array.isArray(value)) return value.flatMap(listTexts)
  return isObject(value) ? Object.values(value).flatMap(listTexts) : []
}

/** What a text of a row may be sealed for: one of its columns, or two of them. */
function listContexts(row: Record<string, unknown>): string[] {
  const values = Object.values(row).flatMap(value =>
    typeof value === 'object' || String(value).length > 64 ? [] : [String(value)],
  )
  const pairs = values.flatMap(one => values.map(other => `${one} ${other}`))
  return [...values, ...pairs, ...pairs.flatMap(one => values.map(other => `${one} ${other}`))]
}

function openAny(seals: Seal[], text: string, contexts: string[]): string[] {
  for (const one of seals)
    for (const context of contexts) {
      const opened = one.open(text, context)
      if (opened !== undefined) return [opened]
    }
  return []
}

/** The columns of the schema that have encrypted texts by their name. */
const listSealedColumns = (): string[] => {
  const schema = readFileSync(new URL(SCHEMA, import.meta.url), 'utf8')
  return schema.split('CREATE TABLE ').flatMap(text => {
    const [table = ''] = text.split(' ')
    return /^ +sealed text/m.test(text) ? [`${table}.sealed`] : []
  })
}

const SCHEMA = '../../../src/store/sqlite/schema.sql'

test('nothing needs a secret that was replaced', async () => {
  const gateway = await testGateway({ data, secret: 'first' })
  await storeSecrets(gateway)
  await gateway.close()
  const db = openDatabase(data)
  const before = listSealed(db, openSeals('first'))
  const found = new Set(before.map(text => text.split(':')[0]))
  expect([...found].toSorted()).toEqual(
    [
      ...listSealedColumns(),
      ...['outbox.payload', 'preset_versions.config', 'videos.callback_url', 'videos.details'],
    ].toSorted(),
  )
  expect(listSealed(db, openSeals('second'))).toEqual([])
  const env = { GATEWAY_SECRET: 'second', GATEWAY_PREVIOUS_SECRET: 'first' }
  const args = ['doctor', '--reseal', '--yes', '--reason', 'another secret', '--data', data]
  const { code, stdout } = await runCommand(args, { env })
  expect([code, stdout]).toEqual([0, expect.stringContaining('the current one')])
  expect(listSealed(db, openSeals('first'))).toEqual([])
  expect(listSealed(db, openSeals('second'))).toEqual(before)
  db.close()
})
