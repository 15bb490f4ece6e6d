import { describe, expect, test } from 'bun:test'
import { createApp } from '../../src/server/app.ts'
import { listDescribedRoutes } from '../../src/server/openapi.ts'
import { contract } from '../support/contract.ts'
import { testGateway } from '../support/gateway.ts'

interface Operation {
  operationId: string
  tags: string[]
  responses: Record<string, unknown>
  parameters?: { name: string; in: string }[]
}

/** The nouns whose operations in the public contract are all served. */
const NOUNS = /^\/(keys?|guardrails|workspaces|credits|organization|scim)(\/|$)/

const described = new Map(
  listDescribedRoutes(createApp(await testGateway())).map(({ method, path, operation }) => [
    `${method} ${path.replace('/api/v1', '').replace(/:(\w+)/g, '{$1}')}`,
    operation,
  ]),
)

const ALWAYS_THERE = 'It names nothing that there might not be: there is always one organization.'

/** The statuses that the contract lists and this gateway never answers, and why. */
const NEVER: Record<string, string> = {
  'listOrganizationMembers 404': ALWAYS_THERE,
  'listScimGroupMappings 404': ALWAYS_THERE,
  'listScimGroups 404': ALWAYS_THERE,
  'createCoinbaseCharge 200': 'That door is closed for good: 410.',
}

describe.skipIf(!contract)('the public contract (from GATEWAY_SHARED)', () => {
  const paths = Object.entries((contract?.paths ?? {}) as Record<string, Record<string, Operation>>)
  const operations = paths
    .filter(([path]) => NOUNS.test(path))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(
        ([method, operation]) => [`${method} ${path}`, operation] as const,
      ),
    )
    .filter(([, { operationId }]) => operationId)

  test('every operation has a door', () => {
    const all = paths.flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, { operationId }]) =>
        operationId ? [[`${method} ${path}`, operationId]] : [],
      ),
    )
    expect(all.length).toBeGreaterThan(100)
    expect(all.filter(([at = '', id]) => described.get(at)?.id !== id)).toEqual([])
  })

  test.each(operations)(
    '%s is described with the same name, tag and query',
    (at, { operationId, tags, parameters = [] }) => {
      const { id, tag, query } = described.get(at) ?? {}
      const names = parameters.filter(one => one.in === 'query').map(one => one.name)
      expect([id, tag, Object.keys(query?.properties ?? {}).sort()]).toEqual([
        operationId,
        tags[0],
        names.sort(),
      ])
    },
  )

  test('every omitted status has a reason, and every reason an omitted status', () => {
    const left = operations.flatMap(([at, { operationId, responses }]) =>
      Object.keys(responses).flatMap(status =>
        described.get(at)?.statuses.includes(Number(status)) ? [] : `${operationId} ${status}`,
      ),
    )
    expect(left.sort()).toEqual(Object.keys(NEVER).sort())
  })
})
