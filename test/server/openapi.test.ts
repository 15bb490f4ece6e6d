import { beforeAll, describe, expect, test } from 'bun:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Elysia } from 'elysia'
import type { Gateway } from '../../src/app/gateway.ts'
import { VERSION } from '../../src/base/version.ts'
import { allowAnyone, findRequiredCredential, requireKey } from '../../src/server/access.ts'
import { createApp } from '../../src/server/app.ts'
import { listDescribedRoutes } from '../../src/server/openapi.ts'
import { describeOperation } from '../../src/server/operation.ts'
import { addRoutes, Routes } from '../../src/server/routes.ts'
import { dialects } from '../../src/translation/dialects/registry.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'

interface Described {
  openapi: string
  info: { title: string; version: string; 'x-gateway-version': string }
  servers: { url: string }[]
  security: object[]
  paths: Record<string, Record<string, DescribedOperation>>
}

interface DescribedOperation {
  operationId: string
  tags: string[]
  summary: string
  security?: object[]
  parameters: { name: string; in: string; required: boolean }[]
  requestBody?: { required: boolean }
  responses: Record<string, { description: string; content: object }>
}

let gateway: Gateway
let app: ReturnType<typeof createApp>
let description: Described

const get = async (path: string) => app.handle(new Request(`http://localhost${path}`))

beforeAll(async () => {
  gateway = await testGateway({ config: { server: { site_url: 'http://127.0.0.1:8080' } } })
  app = createApp(gateway)
  description = (await (await get('/openapi.json')).json()) as Described
})

const operations = () => Object.values(description.paths).flatMap(path => Object.values(path))

describe('/openapi.json', () => {
  test('is valid OpenAPI 3.1 of version 1.0.0 (Versioning 2)', async () => {
    const validator = new Validator()
    const { valid, errors } = await validator.validate({ ...description })
    expect(errors ?? []).toEqual([])
    expect([valid, validator.version]).toEqual([true, '3.1'])
    expect(description.openapi).toStartWith('3.1.')
    expect(description.info.version).toBe('1.0.0')
    expect(description.info['x-gateway-version']).toBe(VERSION)
    expect(description.servers).toEqual([{ url: 'http://127.0.0.1:8080' }])
  })

  test('describes the header that requests routing metadata', () => {
    const heeding = operations().filter(({ parameters }) =>
      parameters.some(one => one.in === 'header' && one.name === 'X-Gateway-Metadata'),
    )
    const told = dialects.flatMap(({ showsRouting, operation: { id } }) =>
      showsRouting ? [id] : [],
    )
    told.push('createDeploymentChatCompletion', 'createDeploymentCompletion')
    told.push('generateContent', 'streamGenerateContent', 'converse', 'converseStream')
    told.push('invokeModel', 'invokeModelWithResponseStream')
    expect(heeding.map(({ operationId }) => operationId).sort()).toEqual(told.toSorted())
    const texts = ['createMessages', 'sendChatCompletionRequest', 'sendCompletionRequest']
    expect(told).toEqual(expect.arrayContaining(texts))
    expect(told).not.toContain('createEmbeddings')
  })

  test('describes every route of the app', () => {
    const described = Object.entries(description.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map(method => `${method} ${path}`),
    )
    const isPage = ({ hooks }: (typeof app.routes)[number]) =>
      (hooks as { detail?: { 'x-operation'?: { isPage?: boolean } } }).detail?.['x-operation']
        ?.isPage
    const routes = app.routes
      .filter(route => !isPage(route))
      .map(
        ({ method, path }) =>
          `${method.toLowerCase()} ${path.replace(/(?<=.)\/$/, '').replace(/:(\w+)/g, '{$1}')}`,
      )
    expect(described.sort()).toEqual([...new Set(routes)].sort())
  })

  test('gives every operation a unique name, a summary, and its answers', () => {
    const ids = operations().map(one => one.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { summary, tags, responses } of operations()) {
      expect(summary).not.toBe('')
      expect(tags).toHaveLength(1)
      // A route that is closed for good has no successful answer.
      expect(
        Object.keys(responses).some(status => status.startsWith('2') || status === '410'),
      ).toBe(true)
      for (const { description: meaning } of Object.values(responses)) expect(meaning).not.toBe('')
    }
  })

  test('describes every parameter of a path, and no others', () => {
    for (const [path, methods] of Object.entries(description.paths))
      for (const { parameters } of Object.values(methods))
        expect(parameters.filter(one => one.in === 'path').map(one => `{${one.name}}`)).toEqual(
          path.match(/\{\w+\}/g) ?? [],
        )
  })

  test('says of each operation whether it needs a key, truthfully', async () => {
    for (const { method, path, operation: described } of listDescribedRoutes(app)) {
      const shown = description.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method]
      const other = described.eitherHeader
        ? { apiKeyHeader: [] }
        : described.keyHeader && {
            [described.keyHeader === 'api-key' ? 'azureKeyHeader' : 'googleKeyHeader']: [],
          }
      const either = other ? [{ apiKey: [] }, other] : undefined
      expect([path, shown?.security]).toEqual([path, described.open ? [] : either])
      const { status } = await app.handle(
        new Request(`http://localhost${path.replace(/:\w+/g, 'x')}`, {
          method: method.toUpperCase(),
        }),
      )
      expect([method, path, status === 401]).toEqual([method, path, !described.open])
    }
    expect(description.security).toEqual([{ apiKey: [] }])
  })

  test('names 401 wherever a key is needed, and 403 wherever a management key is', async () => {
    const { inference } = await createTestKeys(gateway)
    for (const { method, path, operation: described } of listDescribedRoutes(app).filter(
      route => !route.operation.open,
    )) {
      expect(described.statuses).toContain(401)
      const headers = { authorization: `Bearer ${inference}` }
      const { status } = await app.handle(
        new Request(`http://localhost${path.replace(/:\w+/g, 'x')}`, {
          method: method.toUpperCase(),
          headers,
        }),
      )
      if (status === 403) expect([path, described.statuses.includes(403)]).toEqual([path, true])
    }
  })

  test('has the explanation as a further answer of every call', () => {
    const other = { $ref: '#/components/schemas/Explanation', description: expect.any(String) }
    for (const path of [
      '/api/v1/chat/completions',
      '/api/v1/completions',
      '/api/v1/messages',
      '/api/v1/embeddings',
      '/api/v1/rerank',
      '/api/v1/images',
    ]) {
      const content = description.paths[path]?.post?.responses['200']?.content as Record<
        string,
        unknown
      >
      expect([path, content['application/json']]).toEqual([
        path,
        { schema: { anyOf: [expect.anything(), other] } },
      ])
    }
  })

  test('has no bound that only says that a number is exact', () => {
    expect(JSON.stringify(description)).not.toContain(String(Number.MAX_SAFE_INTEGER))
  })

  test('reveals nothing about this installation', async () => {
    const { management } = await createTestKeys(gateway)
    expect(JSON.stringify(description)).not.toContain(management.slice(0, 12))
    expect(JSON.stringify(description)).not.toContain(gateway.memory.owner.workspace_id)
  })
})

describe('/openapi.yaml', () => {
  test('says the same', async () => {
    const response = await get('/openapi.yaml')
    expect(response.headers.get('content-type')).toStartWith('application/yaml')
    expect(Bun.YAML.parse(await response.text())).toEqual(description)
  })
})

describe('a route that does not declare who may use it', () => {
  const described = (open: boolean) =>
    describeOperation({
      id: 'x',
      tag: 'X',
      summary: 'X',
      statuses: [200],
      ...(open ? { open } : {}),
    })

  const listen = () => 'x'
  const add = (...groups: Routes[]) => addRoutes(new Elysia(), groups, '/api/v1')

  test('is refused when it is guarded yet open, or open and not declared so', () => {
    expect(() => add(new Routes(allowAnyone()).get('/x', listen, described(false)))).toThrow(
      'GET /api/v1/x does not declare who may use it',
    )
    expect(() => add(new Routes(requireKey(gateway)).get('/x', listen, described(true)))).toThrow(
      '/api/v1/x',
    )
  })

  test('is added when it does declare it', () => {
    expect(() =>
      add(new Routes(requireKey(gateway)).get('/x', listen, described(false))),
    ).not.toThrow()
    expect(() => add(new Routes(allowAnyone()).get('/x', listen, described(true)))).not.toThrow()
  })

  test('is not covered by the guard of another group', () => {
    const two = new Elysia()
    addRoutes(two, [
      new Routes(requireKey(gateway)).get('/a', listen, described(false)),
      new Routes(allowAnyone()).get('/b', listen, described(true)),
    ])
    expect(two.routes.map(({ path, hooks }) => [path, findRequiredCredential(hooks)])).toEqual([
      ['/a', 'key'],
      ['/b', undefined],
    ])
  })
})
