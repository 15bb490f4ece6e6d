import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { dereference, type Schema, validate } from '@cfworker/json-schema'
import { GatewayError } from '../../../src/base/errors.ts'
import { createApp } from '../../../src/server/app.ts'
import { NOTES, TAGS } from '../../../src/server/openapi/notes.data.ts'
import { type DescribedRoute, listDescribedRoutes } from '../../../src/server/openapi.ts'
import { openWorld, REQUESTS, type World } from '../../support/access.ts'
import { buildExamples, type DescribedOperation } from '../../support/description.ts'
import { testGateway } from '../../support/gateway.ts'
import type { RequestBuilder } from '../../support/operations.ts'
import { completion, startUpstream, type Upstream } from '../../support/upstream.ts'

interface Description {
  tags: { name: string }[]
  paths: Record<string, Record<string, DescribedOperation>>
  components: { schemas: Record<string, object> }
}

const app = createApp(await testGateway())
const routes = listDescribedRoutes(app)
const description = (await (
  await app.handle(new Request('http://localhost/openapi.json'))
).json()) as Description

const describedAs = ({ path, method }: DescribedRoute): DescribedOperation => {
  const operation = description.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method]
  if (!operation) throw new Error(`${method} ${path} is not described`)
  return operation
}

/** Where the description is, for the references of its parts. */
const AT = 'https://gateway.example/openapi.json'
const known = dereference({ $id: AT, components: description.components } as Schema)

/** Checks a value against a schema of the description. Returns what is wrong. */
function findErrors(schema: object, value: unknown): unknown {
  const pointed: Schema = JSON.parse(JSON.stringify(schema).replaceAll('"#/comp', `"${AT}#/comp`))
  return validate(value, pointed, '2020-12', dereference(pointed, Object.create(known))).errors
}

const LIVE = { management: 'management key', scim: 'SCIM token' } as const

const credentialOf = (world: World, { credential }: DescribedRoute) =>
  credential === undefined
    ? {}
    : world.live[
        credential === 'management' || credential === 'scim' ? LIVE[credential] : 'inference key'
      ]

let upstream: Upstream
let shared: World
beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(() => [completion('Hello')])
  shared = await openWorld(upstream.url)
})
afterAll(async () => {
  await shared[Symbol.asyncDispose]()
  await upstream.close()
})

/** The world of requests about what is made for each: until a name is taken there. */
let crowded: World | undefined
afterAll(() => crowded?.[Symbol.asyncDispose]())

async function buildCrowded(build: RequestBuilder) {
  const buildIn = async (world: World) => {
    crowded = world
    return { world, request: await build(world.gateway, world.actors.operator) }
  }
  try {
    return await buildIn(crowded ?? (await openWorld(upstream.url)))
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    await crowded?.[Symbol.asyncDispose]()
    return buildIn(await openWorld(upstream.url))
  }
}

describe('every operation', () => {
  test('has a note, and every note an operation', () => {
    expect(routes.map(({ operation }) => operation.id).toSorted()).toEqual(
      Object.keys(NOTES).toSorted(),
    )
    for (const { operation } of routes) expect(NOTES[operation.id]?.description).toEndWith('.')
  })

  test('has a heading that is described, inference first', () => {
    const names = TAGS.map(({ name }) => name)
    expect([...new Set(routes.map(({ operation }) => operation.tag))].toSorted()).toEqual(
      names.toSorted(),
    )
    expect(description.tags.map(({ name }) => name)).toEqual(names)
    expect(names.slice(0, 4)).toEqual(['Chat', 'Messages', 'Responses', 'Embeddings'])
  })

  test('has an example of its body and of each parameter in its path', () => {
    for (const route of routes) {
      const { requestBody, parameters } = describedAs(route)
      const media = requestBody?.content['application/json']
      if (media)
        expect([route.operation.id, findErrors(media.schema, media.example)]).toEqual([
          route.operation.id,
          [],
        ])
      for (const parameter of parameters.filter(one => one.in === 'path'))
        expect([route.operation.id, parameter.example]).toEqual([
          route.operation.id,
          expect.anything(),
        ])
    }
  })

  test.each(routes.map(route => [route.operation.id, route] as const))(
    '%s answers as its schema says',
    async (id, route) => {
      const build = REQUESTS[id]
      if (!build) throw new Error(`There is no request of ${id}`)
      // What only reads, and needs nothing made before, is the same in every world.
      const isPlain = route.method === 'get' && build.length === 0
      const { world, request } = isPlain
        ? { world: shared, request: await build(shared.gateway, shared.actors.operator) }
        : await buildCrowded(build)
      const answer = await world.ask(route, credentialOf(world, route), request)
      const described = describedAs(route).responses[answer.status]
      expect([id, answer.status, described]).toEqual([id, answer.status, expect.anything()])
      const type = answer.headers['content-type']?.split(';')[0] ?? ''
      if (answer.status === 204) return
      const { content } = described ?? {}
      // The formats of sound are many, and described as one.
      const schema = (content?.[type] ?? content?.[type.replace(/\/.*/, '/*')])?.schema
      expect([id, type, schema]).not.toEqual([id, type, {}])
      expect([id, type, schema]).toEqual([id, type, expect.anything()])
      const value = type.endsWith('json') ? JSON.parse(answer.body) : answer.body
      expect([id, findErrors(schema ?? {}, value)]).toEqual([id, []])
    },
  )

  test.each(routes.map(route => [route.operation.id, route] as const))(
    '%s can be tried as prefilled',
    async (id, route) => {
      const request = buildExamples(describedAs(route))
      const answer = await shared.ask(route, credentialOf(shared, route), request)
      const isAboutAnother =
        NEEDS_ANOTHER.has(id) ||
        /:(id|file_id|container_id|jobId|hash|response_id)\b/.test(route.path)
      const isClosed = id === 'createCoinbaseCharge'
      if (isClosed) expect(answer.status).toBe(410)
      else if (id === 'exchangeAuthCodeForAPIKey') expect(answer.status).toBe(403)
      // A moderation needs who judges, and a stream of MCP its session.
      else if (/^(createModeration$|(listenTo|leave)Mcp)/.test(id))
        expect([400, 404]).toContain(answer.status)
      // A form has a file that its sender chooses.
      else if (route.operation.accepts) expect(answer.status).toBe(400)
      else if (isAboutAnother) expect([200, 204, 404]).toContain(answer.status)
      else expect([id, answer.status < 300]).toEqual([id, true])
    },
  )
})

/** Operations about something that has to be made first. */
const NEEDS_ANOTHER = new Set([
  'askMcpServer',
  'getGeneration',
  'listGenerationContent',
  'submitGenerationFeedback',
  'createScimGroupMapping',
  'getPreset',
  'listPresetVersions',
  'getPresetVersion',
])
