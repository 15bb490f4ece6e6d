import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { explainGeneration, rebuildRequest } from '../../src/app/past-request.ts'
import { requireValid } from '../../src/base/body.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { deleteKey } from '../../src/resources/keys.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { findDialect } from '../../src/translation/dialects/registry.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { buildGeneration } from '../support/generation.ts'

const build = (more: object) => buildGeneration({ preset_id: null, router: null, ...more })

describe('the request of a finished call', () => {
  test.each(['completions', 'responses', 'embeddings', 'rerank', 'image', 'tts', 'video'])(
    'of the type %s is one that its dialect accepts',
    api_type => {
      const { dialect, body, unknown } = rebuildRequest(build({ api_type }), null)
      expect(requireValid(findDialect(dialect).body, body)).toBe(body as never)
      expect(body).toMatchObject({ model: 'acme/small', session_id: 's-1' })
      expect(unknown[0]).toContain('a filler of 10 tokens')
    },
  )

  test('has the texts that are kept, the router that was named, and the preset', () => {
    const messages = [{ role: 'user', content: 'Hi' }]
    const call = build({ router: 'gateway/auto', external_user: 'u-7' })
    const { body, unknown } = rebuildRequest(call, { messages }, 'terse')
    expect(body).toEqual({
      ...{ messages, model: 'gateway/auto', session_id: 's-1', user: 'u-7', preset: 'terse' },
    })
    expect(unknown).toEqual([
      'Its tools, parameters and preferences are on no record: the defaults stand for them.',
    ])
    expect(rebuildRequest(build({ api_type: 'image' }), { prompt: 'A cat' }).body).toMatchObject({
      prompt: 'A cat',
    })
  })

  test('says what is gone, and is bounded', () => {
    const long = rebuildRequest(build({ native_tokens_prompt: 5_000_000 }), null)
    expect(JSON.stringify(long.body).length).toBeLessThan(600_000)
    expect(long.unknown[0]).toContain('a filler of 100000 tokens')
    expect(rebuildRequest(build({ preset_id: 'p' }), null).unknown).toContain('Its preset is gone.')
    for (const api_type of ['stt', 'correction', 'toString'])
      expect(() => rebuildRequest(build({ api_type }), null)).toThrow('cannot be asked again')
  })
})

describe('a finished call is explained as it would go now', () => {
  let gateway: Gateway
  let id: string
  beforeAll(async () => {
    gateway = await testGateway()
    const keys = await createTestKeys(gateway)
    await updateWorkspace(gateway, getOperator(gateway), gateway.memory.owner.workspace_id, {
      is_observability_io_logging_enabled: true,
    })
    const response = await createApp(gateway).handle(
      new Request('http://localhost/api/v1/chat/completions', {
        method: 'POST',
        headers: {
          authorization: `Bearer ${keys.inference}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({
          model: 'sandbox/echo',
          messages: [{ role: 'user', content: 'Hello' }],
        }),
      }),
    )
    id = response.headers.get('x-generation-id') ?? ''
    await response.text()
  })
  afterAll(() => gateway.close())

  test('with its key and its texts, and nothing is sent or recorded', async () => {
    const { data } = await explainGeneration(gateway, getOperator(gateway), id)
    expect(data.explanation).toMatchObject({
      ...{ requested: ['sandbox/echo'], error: null },
      endpoints: [{ provider: 'sandbox' }],
    })
    expect(data.explanation.key).not.toBe(null)
    expect(data.unknown).toHaveLength(1)
    expect(await gateway.store.generations.list({}, 10)).toHaveLength(1)
  })

  test('and from its workspace once its key is gone', async () => {
    const operator = getOperator(gateway)
    const { key_hash } = (await gateway.store.generations.byId(id)) ?? {}
    await deleteKey(gateway, operator, key_hash ?? '')
    const { data } = await explainGeneration(gateway, operator, id)
    expect(data.explanation.key).toBe(null)
    expect(data.explanation.endpoints).toHaveLength(1)
    expect(explainGeneration(gateway, operator, 'gen-none')).rejects.toThrow('Generation not found')
  })
})
