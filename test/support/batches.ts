import type { Gateway, GatewayParts } from '../../src/app/gateway.ts'
import { createBatchRunner } from '../../src/extensions/batches/runner.ts'
import type { Batch } from '../../src/extensions/batches/store.ts'
import { createBatch } from '../../src/extensions/batches.ts'
import { type Actor, authenticate, getOperator } from '../../src/resources/actor.ts'
import { storeFile } from '../../src/resources/files.ts'
import type { NewKey } from '../../src/resources/keys/schema.ts'
import { createKey } from '../../src/resources/keys.ts'
import { testGateway } from './gateway.ts'
import { expectAtRest } from './invariants.ts'

/** A line of a file of requests. */
export const buildLine = (custom_id: string, body: object = {}, more: object = {}) =>
  JSON.stringify({
    custom_id,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'sandbox/echo', messages: [{ role: 'user', content: custom_id }], ...body },
    ...more,
  })

/** A model of a provider at this address, which costs something. */
export const buildPaidModel = (base_url: string) => ({
  providers: { local: { protocol: 'openai-chat', base_url, api_key: 'sk-own' } },
  models: [
    {
      id: 'acme/small',
      context_length: 128_000,
      endpoints: [
        { provider: 'local', model: 'up', usd_per_million_tokens: { prompt: 1, completion: 2 } },
      ],
    },
  ],
})

/** Opens a gateway with a key for inference and a runner of batches, which has not begun. */
export async function openBatchHouse(
  parts: Partial<Omit<GatewayParts, 'config'>> & { config?: Record<string, unknown> } = {},
  key: Partial<NewKey> = {},
) {
  const gateway = await testGateway(parts)
  const created = await createKey(gateway, getOperator(gateway), { name: 'batch', ...key })
  const actor = authenticate(gateway, `Bearer ${created.key}`)
  return { gateway, actor, hash: created.data.hash, ...createBatchTools(gateway, actor) }
}

/** What tests do with batches of an actor. */
export function createBatchTools(gateway: Gateway, actor: Actor) {
  const runner = createBatchRunner(gateway)
  const upload = async (lines: string[]) => {
    async function* pieces() {
      yield Buffer.from(lines.join('\n'))
    }
    return (await storeFile(gateway, actor, { filename: 'in.jsonl' }, pieces())).id
  }
  const create = async (lines: string[], more: object = {}) =>
    createBatch(gateway, actor, {
      endpoint: '/v1/chat/completions',
      input_file_id: await upload(lines),
      ...more,
    })
  const read = async (id: string): Promise<Batch> => {
    const batch = await gateway.store.batches.find(id)
    if (!batch) throw new Error(`${id} is gone`)
    return batch
  }
  /** Reads the lines of a file that the gateway has written; none without an id. */
  const readResults = async (id: string | null) => {
    if (id === null) return []
    const { readFile } = await import('../../src/resources/files.ts')
    const { bytes } = await readFile(gateway, actor, id)
    const text = await new Response(bytes).text()
    return text
      .split('\n')
      .filter(line => line !== '')
      .map(line => JSON.parse(line))
  }
  const run = async () => {
    await runner.start()
    await runner.rest()
    await runner.stop()
    await expectAtRest(gateway)
  }
  return { runner, upload, create, read, readResults, run }
}
