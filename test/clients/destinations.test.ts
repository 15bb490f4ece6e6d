import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import {
  BadRequestResponseError,
  ConflictResponseError,
  ForbiddenResponseError,
  NotFoundResponseError,
  UnauthorizedResponseError,
} from '@openrouter/sdk/models/errors'
import {
  DESTINATION_TYPES,
  type DestinationType,
} from '../../src/observability/destinations/kind.ts'
import { SAMPLES } from '../support/destination-samples.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

const NOBODY = '019aa000-0000-7000-8000-0000000000ff'

let server: LocalServer
let checker: Wirecheck | null = null
let management: OpenRouter

beforeAll(async () => {
  server = await startLocalServer({ security: { allow_url_ports: [8123, 8443, 4318] } })
  if (hasWirecheck) checker = await startWirecheck(server.url)
  management = clientWith(server.management_key)
})
afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
})

const clientWith = (apiKey: string) =>
  new OpenRouter({
    apiKey,
    serverURL: `${checker?.url ?? server.url}/api/v1`,
    retryConfig: { strategy: 'none' },
  })

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

/** What the client reads of a destination: a union of all types, or none that it knows. */
interface Read {
  id: string
  config: Record<string, unknown>
}

const create = async (type: DestinationType, more: object = {}) =>
  (
    await management.observability.create({
      createObservabilityDestinationRequest: {
        ...{ type, name: `a ${type}`, config: SAMPLES[type].least },
        ...more,
      },
    })
  ).data as unknown as Read

describe.each([...DESTINATION_TYPES])('a destination of the type %s', type => {
  test('is created, read, changed, listed and deleted by OpenRouter’s client', async () => {
    const { least, others } = SAMPLES[type]
    const made = await create(type, { config: { ...least, ...others }, regions: ['eu', 'us'] })
    expect(made).toMatchObject({
      type,
      name: `a ${type}`,
      enabled: true,
      regions: ['europe', 'us'],
    })
    expect(JSON.stringify(made)).not.toContain('SECRET')
    const { id } = made
    expect((await management.observability.get({ id })).data).toEqual(made as never)
    const changed = await management.observability.update({
      id,
      updateObservabilityDestinationRequest: {
        config: made.config,
        samplingRate: 0.25,
        privacyMode: true,
        filterRules: {
          groups: [{ rules: [{ field: 'model', operator: 'contains', value: 'gpt' }] }],
        },
      },
    })
    expect(changed.data).toMatchObject({
      samplingRate: 0.25,
      privacyMode: true,
      config: made.config,
    })
    const { result } = await management.observability.list({ limit: 100 })
    expect(result.data.map(one => (one as unknown as Read).id)).toContain(id)
    expect(await management.observability.delete({ id })).toEqual({ deleted: true })
    const gone = failureOf(management.observability.get({ id }))
    expect(await gone).toBeInstanceOf(NotFoundResponseError)
  })
})

test('refusals are the client’s own errors', async () => {
  expect(await failureOf(create('webhook', { config: {} }))).toBeInstanceOf(BadRequestResponseError)
  const made = await Promise.all(Array.from({ length: 5 }, () => create('webhook')))
  expect(await failureOf(create('webhook'))).toBeInstanceOf(ConflictResponseError)
  for (const { id } of made) await management.observability.delete({ id })
  const inference = clientWith(server.inference_key)
  const forbidden = inference.observability.create({
    createObservabilityDestinationRequest: { type: 'ramp', name: 'x', config: SAMPLES.ramp.least },
  })
  expect(await failureOf(forbidden)).toBeInstanceOf(ForbiddenResponseError)
  const nobody = clientWith('gw-v1-none')
  expect(await failureOf(nobody.observability.get({ id: NOBODY }))).toBeInstanceOf(
    UnauthorizedResponseError,
  )
})

test.if(hasWirecheck)('every answer has the public form', async () => {
  const report = await checker?.report()
  expect(report?.violations).toEqual([])
  expect(report?.seen['createObservabilityDestination 201']).toBeGreaterThan(17)
})
