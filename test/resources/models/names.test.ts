import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { planRoute } from '../../../src/engine/plan.ts'
import { renderOtherNames } from '../../../src/resources/models.ts'
import { buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const CONFIG = {
  providers: { local: provider, openai: { api_key: 'mock' } },
  models: [
    { id: 'acme/twin', endpoints: [{ provider: 'local', model: 'shared' }] },
    { id: 'other/twin', endpoints: [{ provider: 'local', model: 'shared' }] },
    { id: 'acme/lone', endpoints: [{ provider: 'local', model: 'lone:7b' }] },
  ],
}

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway({ config: CONFIG })
})

const meant = (name: string) => gateway.catalog.models.get(name)?.id
const hint = (name: string) => renderOtherNames(gateway.catalog, name)

describe('a name without an author', () => {
  test.each([
    ['gpt-4o-mini', 'openai/gpt-4o-mini'],
    ['claude-sonnet-4-5', 'anthropic/claude-sonnet-4.5'],
    ['claude-sonnet-4.5', 'anthropic/claude-sonnet-4.5'],
    ['lone', 'acme/lone'],
    ['lone:7b', 'acme/lone'],
  ])('%s means %s', (name, id) => {
    expect(meant(name)).toBe(id)
  })

  test('takes variants', () => {
    const { models } = planRoute(
      gateway,
      'text',
      buildTextCall({ models: ['gpt-4o-mini:floor', 'lone'] }),
    )
    expect(models.map(({ model, sort }) => [model.id, sort])).toEqual([
      ['openai/gpt-4o-mini', 'price'],
      ['acme/lone', undefined],
    ])
  })

  test.each(['twin', 'shared', 'twin:nitro'])('%s means several: they are named', name => {
    expect(meant(name)).toBeUndefined()
    const plan = () => planRoute(gateway, 'text', buildTextCall({ models: [name] }))
    expect(plan).toThrow(/which of these do you mean: acme\/twin, other\/twin\?/)
  })
})

describe('an unknown name', () => {
  test.each([
    ['openai/gpt-4o-mni', 'openai/gpt-4o-mini'],
    ['gpt4o', 'openai/gpt-4o'],
    ['OpenAI/GPT-4o', 'openai/gpt-4o'],
    ['openai/claude-sonnet-4.5', 'anthropic/claude-sonnet-4.5'],
    ['acme/lon', 'acme/lone'],
  ])('%s may be meant for %s', (name, id) => {
    expect(hint(name)).toContain(`did you mean: ${id}`)
  })

  test.each(['', '/', 'zz/qqqqqqqq', 'x'.repeat(100_000), '\u{1F600}'.repeat(40)])(
    'is near to nothing: %#',
    name => {
      expect(hint(name)).toBe('')
    },
  )

  test('the error lists the others where clients look for them', () => {
    const plan = () => planRoute(gateway, 'text', buildTextCall({ models: ['acme/lon'] }))
    expect(plan).toThrow(
      expect.objectContaining({
        message: '"acme/lon" is not a valid model ID; did you mean: acme/lone?',
        metadata: expect.objectContaining({
          availability: expect.objectContaining({
            code: 'model_not_found',
            fallback_models: ['acme/lone'],
          }),
        }),
      }),
    )
  })
})
